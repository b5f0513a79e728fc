import type { AgentTier } from '../mesh/schemas.js';
import type { PeerRow } from '../network/peers/network.js';
import { duration, flag, list as listed, type Option, text, verb, whole } from './command.js';
import { confirm } from './input.js';
import { oneLine, usage } from './output.js';

const yes = flag('do not ask on a terminal');

const list = verb({
  summary: 'list the other nodes of the mesh',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('peers');
    output.rows(rows, 'no other nodes; let one in with: ecliptic invite', (row) => ({
      NODE: row.node.slice(0, 12),
      NAME: row.name || '-',
      STATE: stateOf(row),
      LINK: row.link,
      AGENTS: row.agents,
      TIERS: row.tiers.map((tier) => `L${tier}`).join(' ') || '-',
      OWNER: row.owner ? 'yes' : '-',
    }));
  },
});

/** A node that is not connected was last heard of at a time that tells how far to trust its state. */
function stateOf({ state, reason, lastHeard }: Pick<PeerRow, 'state' | 'reason' | 'lastHeard'>): string {
  const heard = lastHeard === null ? '' : `, last heard ${new Date(lastHeard).toISOString().slice(11, 19)} UTC`;
  return `${reason === null ? state : `${state}: ${reason}`}${heard}`;
}

const tiers: Option<AgentTier[] | undefined> = {
  value: 'LIST',
  help: 'the tiers that its agents may have, e.g. 2,3 (default: all, for a device of your own)',
  read(given, name) {
    const words = given.split(',').map((word) => word.trim());
    if (words.some((word) => !/^[0-3]$/.test(word))) throw usage(`${name} lists 0, 1, 2 or 3, e.g. 2,3`);
    return words.map((word) => Number(word) as AgentTier);
  },
};

const invite = verb({
  summary: 'make a one-time code that lets another node into this mesh',
  options: {
    owner: flag('for a device of your own: it shows and answers what waits for you here, and may pass this on'),
    other: flag('for a node of another person: its agents are L2 or L3, and it cannot invite'),
    tiers,
    sandbox: listed('LIST', 'the only sandboxes that its agents may be in'),
    ttl: duration('how long the code is valid (default: 15m)'),
  },
  examples: ['', '--owner', '--other --ttl 1h', '--json   # {"code":…}'],
  async run({ call, values: { owner, other, tiers: given, sandbox: sandboxes, ttl: ttlMs }, output }) {
    if (owner && other) throw usage('--owner is for a device of your own, --other for one of another person');
    const allowed = given ?? (other ? ([2, 3] as const) : undefined);
    const made = await call('invite', {
      tiers: allowed,
      sandboxes,
      ttlMs,
      mayInvite: other ? false : undefined,
      owner,
    });
    if (!output.json) for (const warning of made.warnings) process.stderr.write(`warning: ${oneLine(warning)}\n`);
    output.value(made, () =>
      [
        made.code,
        '',
        `On the other device, before ${new Date(made.expiresAt).toTimeString().slice(0, 5)}, once:`,
        `  ecliptic join ${made.code}`,
      ].join('\n'),
    );
  },
});

const join = verb({
  summary: 'join the mesh of an invite code',
  args: ['CODE'],
  examples: ['ecl1…'],
  async run({ connect, words: [code], output }) {
    const client = await connect();
    if (!output.json) process.stderr.write('Looking for the node that made this code …\n');
    const joined = await client.call('join', { code });
    output.value(joined, () => 'This node is now a member. List the others with: ecliptic peers');
  },
});

const leave = verb({
  summary: 'leave the mesh; coming back takes a new invite',
  options: { yes },
  examples: ['', '--yes'],
  async run({ connect, values, output }) {
    const client = await connect();
    await confirm(output, values.yes, 'Leave the mesh? Coming back takes a new invite.');
    await client.call('leave', {}, () => {
      if (!output.json) process.stderr.write('Leaving the mesh …\n');
    });
    output.value({ left: true }, () => 'This node left the mesh. Its agents continue to run.');
  },
});

const remove = verb({
  summary: 'revoke the membership of a node',
  args: ['KEY'],
  argHelp: [['KEY', 'the node’s key, which may be shortened, or its name']],
  options: { yes },
  examples: ['3f9a'],
  async run({ connect, values, words: [node], output }) {
    const client = await connect();
    const rows = await client.call('peers');
    const { MIN_KEY_PREFIX } = await import('../network/peers/network.js');
    const isPrefix = node.length >= MIN_KEY_PREFIX;
    const meant = rows.filter((row) => row.name === node || (isPrefix && row.node.startsWith(node)));
    const who = meant.length === 1 ? `${meant[0]!.name || 'a node'} (${meant[0]!.node.slice(0, 12)})` : node;
    await confirm(output, values.yes, oneLine(`Remove ${who} from the mesh? Coming back takes a new invite.`));
    await client.call('peers.remove', { node });
    output.value({ removed: node }, () => 'That node is no longer a member; the others are being told.');
  },
});

/** The fewest DHT nodes that let peers find each other reliably, as `PrivateDht` requires. */
const DHT_NODES: typeof import('../network/discovery/private-dht.js').LEAST_NODES = 4;

const dht = verb({
  summary: 'run a private DHT, through which nodes find each other',
  options: {
    nodes: whole(`DHT nodes in this process (default and least: ${DHT_NODES})`),
    host: text('ADDRESS', 'the address to run on (default: 127.0.0.1)'),
    port: whole('UDP port of the first node (default: a free one)'),
  },
  examples: ['--port 49737', '% --port 49737 & ecliptic up --bootstrap 127.0.0.1:49737'],
  async run({ values: { nodes = DHT_NODES, host = '127.0.0.1', port = 0 }, output }) {
    if (nodes < DHT_NODES || nodes > 64) {
      throw usage(`--nodes must be from ${DHT_NODES} to 64: with fewer, peers do not find each other reliably`);
    }
    if (port > 65_535) throw usage('--port must be from 0 to 65535');
    const [{ PrivateDht }, { systemRuntime }] = await Promise.all([
      import('../network/discovery/private-dht.js'),
      import('../runtime/system-runtime.js'),
    ]);
    const running = await PrivateDht.start(nodes, host, port);
    const [bootstrap] = running.bootstrap;
    output.value({ bootstrap, nodes: running.bootstrap, pid: process.pid }, () =>
      [
        `A private DHT of ${nodes} nodes runs on ${running.bootstrap.join(', ')}`,
        `  ecliptic up --bootstrap ${bootstrap}`,
        '',
        'Ctrl-C stops it.',
      ].join('\n'),
    );
    const hold = systemRuntime().hold();
    await new Promise<void>((resolve) => {
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
    });
    hold.cancel();
    await running.stop();
  },
});

export const verbs = { list, invite, join, leave, remove, dht };
