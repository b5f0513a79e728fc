import { describe, expect, it } from 'vitest';
import { RaftLog } from './raft-log.js';
import type { RaftMessage } from './swarm-messages.js';

const SEATS = ['a@1', 'b@2', 'c@3'];
const RECORDS = [1, 2, 3].map((term) => ({
  epoch: term,
  record: { type: 'arbiter', address: `term ${term}` } as const,
}));

/** The seat `b`, in term 3, with one record of each term; what it says. */
function seat() {
  const said: { to: string; message: RaftMessage }[] = [];
  const effects = { send: (to: string, message: RaftMessage) => void said.push({ to, message }), keep: () => {} };
  const memory = { term: 3, votedFor: null, log: [...RECORDS] };
  const log = new RaftLog('b@2', SEATS, memory, { leaseMs: 3_000, beatMs: 500 }, effects, 0);
  const hear = (from: string, message: RaftMessage) => log.take({ type: 'message', from, message }, 10_000);
  return { log, said, hear };
}

describe('a seat of a swarm', () => {
  it('refuses records of an arbiter whose term is over, and keeps its own [R8.5]', () => {
    const { log, said, hear } = seat();
    const stale = { epoch: 2, record: { type: 'arbiter', address: 'stale' } as const };
    hear('a@1', { type: 'append', epoch: 2, prior: 1, priorEpoch: 1, entries: [stale], settled: 2 });
    expect(log.read(0)).toEqual(RECORDS);
    expect(log.leader).toBeUndefined();
    expect(said).toEqual([{ to: 'a@1', message: { type: 'ack', epoch: 3, n: 0, taken: false } }]);
  });

  it('votes once in a term, and again for the same candidate only [R8.5]', () => {
    const { said, hear } = seat();
    const ask = { type: 'ask', epoch: 4, last: 3, lastEpoch: 3, trial: false } as const;
    for (const from of ['a@1', 'c@3', 'a@1']) hear(from, ask);
    const votes = said.map(({ to, message }) => [to, 'granted' in message && message.granted]);
    expect(votes).toEqual([
      ['a@1', true],
      ['c@3', false],
      ['a@1', true],
    ]);
  });

  it('does not vote for a candidate whose log is behind its own [R8.5]', () => {
    const { said, hear } = seat();
    hear('a@1', { type: 'ask', epoch: 4, last: 2, lastEpoch: 2, trial: false });
    expect(said.at(-1)!.message).toMatchObject({ type: 'vote', granted: false });
  });
});
