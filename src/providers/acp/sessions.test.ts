import { describe, expect, it } from 'vitest';
import { EclipticError } from '../../runtime/errors.js';
import { Conversation, type MemoryUse, SessionPool } from './sessions.js';

const MB = 1_048_576;

function make(memory: () => MemoryUse, open: () => Promise<void> = async () => {}) {
  const log: string[] = [];
  let next = 0;
  const pool = new SessionPool({
    agent: 'mars',
    async open(_key, spare) {
      if (spare) return spare;
      const sessionId = `s${++next}`;
      await open();
      log.push(`+${sessionId}`);
      return new Conversation({
        sessionId,
        prompt: async () => ({ stopReason: 'end_turn' as const }),
        cancel: () => {},
      });
    },
    close: ({ sessionId }) => log.push(`-${sessionId}`),
    memory,
  });
  const use = (key: string, until: Promise<void> = Promise.resolve(), signal = new AbortController().signal) =>
    pool.use(key, signal, async ({ sessionId }) => {
      await until;
      return sessionId;
    });
  return { pool, log, use };
}

function gate() {
  let open!: () => void;
  const until = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { until, open };
}

const roomy = () => ({ usedBytes: undefined, limitBytes: 4_096 * MB });

describe('the sessions of an agent process', () => {
  it('are one per conversation; the least recently used idle one is closed to make room', async () => {
    const { log, use } = make(() => ({ usedBytes: undefined, limitBytes: 512 * MB }));
    expect([await use('a'), await use('b'), await use('a'), await use('c')]).toEqual(['s1', 's2', 's1', 's3']);
    expect(log).toEqual(['+s1', '+s2', '-s2', '+s3']);
  });

  it('are closed while the agent uses more than half of its memory [T-E1]', async () => {
    let usedBytes = 100 * MB;
    const { pool, log, use } = make(() => ({ usedBytes, limitBytes: 2_048 * MB }));
    for (const key of ['a', 'b', 'c', 'd', 'e']) {
      await use(key);
      usedBytes += 190 * MB;
    }
    expect(log).toEqual(['+s1', '+s2', '+s3', '+s4', '+s5']);
    await use('f');
    expect(log.slice(5)).toEqual(['-s1', '+s6']);
    expect(pool.size).toBe(5);
  });

  it('are given to waiting prompts in order [T-E1]', async () => {
    const { use, pool } = make(() => ({ usedBytes: undefined, limitBytes: 512 * MB }));
    const [one, two, three] = [gate(), gate(), gate()];
    const first = use('a', one.until);
    const second = use('b', two.until);
    const third = use('c', three.until);
    const sameAsThird = use('c');
    one.open();
    expect(await first).toBe('s1');
    three.open();
    expect([await third, await sameAsThird]).toEqual(['s3', 's3']);
    two.open();
    await second;
    expect(pool.size).toBe(2);
  });

  it('are not awaited by a cancelled prompt, even while its session opens [T-E3]', async () => {
    const opening = gate();
    const { use } = make(
      () => ({ usedBytes: undefined, limitBytes: 256 * MB }),
      () => opening.until,
    );
    const [early, waiting] = [new AbortController(), new AbortController()];
    const first = use('a', undefined, early.signal);
    const second = use('b', undefined, waiting.signal);
    const reason = new EclipticError('CANCELLED', 'enough');
    waiting.abort(reason);
    await expect(second).rejects.toBe(reason);
    early.abort(reason);
    await expect(first).rejects.toBe(reason);
    opening.open();
    expect(await use('a')).toBe('s1');
  });

  it('are refused when too many prompts wait', async () => {
    const { use } = make(() => ({ usedBytes: undefined, limitBytes: 256 * MB }));
    const busy = gate();
    const all = Array.from({ length: 101 }, (_, n) => use(`c${n}`, busy.until));
    await expect(use('more')).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    busy.open();
    expect(await Promise.all(all)).toHaveLength(101);
  });

  it('fail their prompts when they cannot be opened, and are tried again with the next prompt', async () => {
    let failing = true;
    const { pool, use } = make(roomy, async () => {
      if (failing) throw new EclipticError('LOGIN_REQUIRED', 'log in');
    });
    await expect(pool.prepare()).rejects.toMatchObject({ code: 'LOGIN_REQUIRED' });
    await expect(use('a')).rejects.toMatchObject({ code: 'LOGIN_REQUIRED' });
    expect(pool.size).toBe(0);
    failing = false;
    await pool.prepare();
    await pool.prepare();
    expect(pool.size).toBe(1);
    expect([await use('a'), await use('b')]).toEqual(['s3', 's4']);
  });
});
