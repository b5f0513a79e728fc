import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { createInterface } from 'node:readline';

/** A program that speaks the line protocol, and harms itself on request. */
const [mode = 'good'] = process.argv.slice(2);
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const cancelled = new Map();
const hoard = [];
let armed = false;

const actions = {
  echo: (id, input) => say({ type: 'result', id, result: input.value }),
  sum: (id, { upTo }) => say({ type: 'result', id, result: (upTo * (upTo + 1)) / 2 }),
  after: (id, { ms, value }) => {
    const timer = setTimeout(() => say({ type: 'result', id, result: value }), ms);
    cancelled.set(id, () => {
      clearTimeout(timer);
      say({ type: 'error', id, code: 'cancelled', message: 'it was cancelled' });
    });
  },
  env: (id, { name }) => say({ type: 'result', id, result: process.env[name] ?? null }),
  pid: (id) => say({ type: 'result', id, result: process.pid }),
  count: (id, { upTo }) => {
    for (let n = 1; n <= upTo; n++) say({ type: 'progress', id, kind: 'text', text: String(n), data: { n } });
    say({ type: 'result', id, result: 'done' });
  },
  fail: (id, { code, message }) => say({ type: 'error', id, code, message }),
  exit: (_id, { code }) => process.exit(code),
  hang: () => {},
  arm: (id) => {
    armed = true;
    say({ type: 'result', id, result: 'armed' });
  },
  deaf: (id) => cancelled.set(id, () => {}),
  kill: () => process.kill(process.pid, 'SIGKILL'),
  stop: () => process.kill(process.pid, 'SIGSTOP'),
  flood: () => {
    const rubbish = `${'x'.repeat(1_000)}\n`.repeat(100);
    const pour = () => process.stdout.write(rubbish, pour);
    pour();
  },
  chatter: (id) => {
    const line = `${JSON.stringify({ type: 'progress', id, text: 'x'.repeat(1_000) })}\n`.repeat(100);
    const pour = () => process.stdout.write(line, pour);
    pour();
  },
  long: () => process.stdout.write('x'.repeat(20 * 1_048_576)),
  shout: () => {
    const noise = `${'y'.repeat(1_000)}\n`.repeat(100);
    const pour = () => process.stderr.write(noise, pour);
    pour();
  },
  grow: () => {
    const more = () => {
      hoard.push(Buffer.alloc(16 * 1_048_576, 1));
      setTimeout(more, 5);
    };
    more();
  },
  family: (id, { count, die }) => {
    const code = 'setInterval(() => {}, 1000)';
    const detached = { detached: true, stdio: 'ignore' };
    const children = Array.from({ length: count }, (_, n) =>
      spawn(process.execPath, ['-e', code], n % 2 === 0 ? detached : { stdio: 'ignore' }),
    );
    say({ type: 'progress', id, text: 'family', data: children.map(({ pid }) => pid) });
    if (die) setTimeout(() => process.kill(process.pid, 'SIGKILL'), 20);
  },
  deafen: () => closeSync(0),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { type, id, input } = JSON.parse(line);
  if (type === 'hello') {
    if (mode === 'mute') return;
    if (mode === 'die') process.exit(3);
    if (mode === 'banner') process.stdout.write('Welcome!\n\n');
    say({ type: 'ready', protocol: mode === 'old' ? 0 : 1, name: 'test program', heartbeat: mode !== 'busy' });
  } else if (type === 'health') {
    if (armed) process.kill(process.pid, 'SIGKILL');
    else if (mode === 'ill') say({ type: 'health', id, state: 'degraded', message: 'it has a cold' });
    else say({ type: 'health', id, state: 'healthy' });
  } else if (type === 'cancel') cancelled.get(id)?.();
  else if (type === 'execute' && mode === 'mirror') say({ type: 'result', id, result: input });
  else if (type === 'execute') actions[input?.do ?? 'echo'](id, input);
});
