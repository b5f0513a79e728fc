import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { Approvals } from './approvals.js';

const QUESTION = { kind: 'write', subject: 'notes.txt', summary: 'may mars write notes.txt?' };

let folder: string;
let runtime: SimulatedRuntime;
let approvals: Approvals;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-approvals-'));
  runtime = new SimulatedRuntime();
  approvals = new Approvals(runtime, { folder });
});

afterEach(() => {
  approvals.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('approvals [UP9]', () => {
  it('give the operator’s decision to the asker', async () => {
    const answer = approvals.ask({ ...QUESTION, details: { bytes: 12 } });
    const [asked] = approvals.waiting;
    expect(asked).toMatchObject({ ...QUESTION, details: { bytes: 12 }, createdAt: runtime.now() });
    approvals.decide('allow-once', 'operator', asked!.id);
    expect(await answer).toBe('allow-once');
    expect(approvals.waiting).toEqual([]);
  });

  it('are denied without an answer in time', async () => {
    const answer = approvals.ask({ ...QUESTION, timeoutMs: 5_000 });
    await runtime.advance(4_999);
    expect(approvals.waiting).toHaveLength(1);
    await runtime.advance(1);
    expect(await answer).toBe('deny');
    expect(approvals.items[0]!.decision).toMatchObject({ by: 'timeout' });
  });

  it('ask no second time after allow-always, also after a restart', async () => {
    const first = approvals.ask(QUESTION);
    approvals.decide('allow-always', 'operator', approvals.waiting[0]!.id);
    expect(await first).toBe('allow-always');
    const later = new Approvals(runtime, { folder });
    expect(await later.ask(QUESTION)).toBe('allow-always');
    expect(await Promise.race([later.ask({ ...QUESTION, subject: 'other' }), 'it waits'])).toBe('it waits');
  });

  it('survive a restart, and expire while the node is down', async () => {
    approvals.request(QUESTION, { ...QUESTION, subject: 'soon', timeoutMs: 1_000 });
    approvals.close();
    await runtime.advance(2_000);
    const later = new Approvals(runtime, { folder });
    expect(later.waiting).toMatchObject([QUESTION]);
    expect(later.items[1]!.decision).toMatchObject({ verdict: 'deny', by: 'timeout' });
    later.close();
  });

  it('are withdrawn when the asker cancels', async () => {
    const abort = new AbortController();
    const answer = approvals.ask(QUESTION, abort.signal);
    abort.abort();
    await expect(answer).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(approvals.items).toEqual([]);
    await expect(approvals.ask(QUESTION, abort.signal)).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  it('are decided all or none, and only while they are open', () => {
    const [one] = approvals.request(QUESTION);
    expect(() => approvals.decide('deny', 'operator', one!.id, 'unknown')).toThrow(
      expect.objectContaining({ code: 'APPROVAL_NOT_FOUND' }),
    );
    expect(approvals.waiting).toHaveLength(1);
    approvals.decide('deny', 'operator', one!.id);
    expect(() => approvals.decide('allow-once', 'operator', one!.id)).toThrow();
  });

  it('are readable by the owner only, and a damaged file is refused', () => {
    approvals.request(QUESTION);
    const file = join(folder, 'approvals.json');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    writeFileSync(file, readFileSync(file, 'utf8').slice(5));
    expect(() => new Approvals(runtime, { folder })).toThrow(expect.objectContaining({ code: 'DATA_FOLDER' }));
  });

  it('are refused when they cannot be stored', () => {
    rmSync(folder, { recursive: true });
    expect(() => approvals.request(QUESTION)).toThrow(expect.objectContaining({ code: 'DATA_FOLDER' }));
    expect(approvals.items).toEqual([]);
  });

  it('have a limit', () => {
    const memory = new Approvals(runtime);
    memory.request(...Array.from({ length: 20_000 }, () => QUESTION));
    expect(() => memory.request(QUESTION)).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
  });

  it('have a limit of allow-always decisions', () => {
    const memory = new Approvals(runtime);
    const ask = (count: number, from = 0) =>
      memory.request(...Array.from({ length: count }, (_, n) => ({ ...QUESTION, subject: `subject ${from + n}` })));
    memory.decide('allow-always', 'operator', ...ask(10_000).map(({ id }) => id));
    const [more] = ask(1, 10_000);
    expect(() => memory.decide('allow-always', 'operator', more!.id)).toThrow(
      expect.objectContaining({ code: 'QUEUE_FULL', details: { limit: 10_000 } }),
    );
    expect(memory.decide('allow-once', 'operator', more!.id)).toHaveLength(1);
    expect(ask(1)).toMatchObject([{ decision: { verdict: 'allow-always', by: 'standing' } }]);
  });
});
