import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { type Action, ActionGate, type ActionGateInit, type ActionRuling } from './action-gate.js';
import { Approvals } from './approvals.js';

const WRITE: Action = { agent: 'mars', provider: 'gemini', action: 'fs.write', subject: 'src/a.ts' };
const ASK = { rules: [{ action: 'fs.*', decision: 'ask' as const }], timeoutMs: 5_000 };

let folder: string;
let runtime: SimulatedRuntime;
let approvals: Approvals;
let reported: [Action, ActionRuling, string | undefined][];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-gate-'));
  runtime = new SimulatedRuntime();
  approvals = new Approvals(runtime, { folder });
  reported = [];
});

afterEach(() => {
  approvals.close();
  rmSync(folder, { recursive: true, force: true });
});

function gate(init: ActionGateInit = ASK, queue = approvals): ActionGate {
  return new ActionGate({ approvals: queue, report: (...ruling) => reported.push(ruling) }, init);
}

describe('the action gate [FR-025-012]', () => {
  it('denies everything without rules, and reports it', async () => {
    expect(await gate({}).check(WRITE, { correlationId: 'c1' })).toMatchObject({ allowed: false, by: 'no-rule' });
    expect(reported).toMatchObject([[WRITE, { allowed: false }, 'c1']]);
    expect(approvals.items).toEqual([]);
    await expect(gate({}).require(WRITE)).rejects.toMatchObject({
      code: 'PROVIDER_POLICY_DENIED',
      retryable: false,
      details: { agent: 'mars', provider: 'gemini', action: 'fs.write', subject: 'src/a.ts', by: 'no-rule' },
    });
  });

  it('follows rules without asking the operator', async () => {
    const rules = [
      { action: 'fs.read', decision: 'allow' as const },
      { action: 'fs.write', match: 'src/*', decision: 'deny' as const },
    ];
    expect(await gate({ rules }).require({ ...WRITE, action: 'fs.read' })).toMatchObject({ allowed: true, by: 'rule' });
    expect(await gate({ rules }).check(WRITE)).toMatchObject({ by: 'rule', reason: 'rule 2 of the policy denies it' });
    expect(approvals.items).toEqual([]);
  });

  it('asks the operator, who allows once or always', async () => {
    const first = gate().check(WRITE, { summary: 'may it?', details: { bytes: 3 } });
    const [question] = approvals.waiting;
    expect(question).toMatchObject({ kind: 'action', summary: 'may it?', details: { bytes: 3, ...WRITE } });
    approvals.decide('allow-once', 'operator', question!.id);
    expect(await first).toMatchObject({ allowed: true, by: 'operator', lasting: false });
    const second = gate().check(WRITE);
    approvals.decide('allow-always', 'operator', approvals.waiting[0]!.id);
    expect(await second).toMatchObject({ allowed: true, by: 'operator', lasting: true });
    // What was allowed for good stays so after a restart, for exactly that.
    const later = new Approvals(runtime, { folder });
    expect(await gate(ASK, later).check(WRITE)).toMatchObject({ allowed: true, by: 'standing', lasting: true });
    for (const change of [
      { agent: 'venus' },
      { provider: undefined },
      { action: 'fs.read' },
      { subject: 'src/b.ts' },
    ]) {
      void gate(ASK, later).check({ ...WRITE, ...change });
    }
    expect(later.waiting).toHaveLength(4);
    later.close();
    // And a rule that denies it wins.
    const strict = gate({ rules: [...ASK.rules, { action: 'fs.write', decision: 'deny' }] });
    expect(await strict.check(WRITE)).toMatchObject({ allowed: false, by: 'rule' });
  });

  it('limits allow-always to the details that the operator saw', async () => {
    const run = { ...WRITE, action: 'fs.run', subject: 'Run the tests' };
    const first = gate().check(run, { details: { input: { command: 'npm test' } } });
    approvals.decide('allow-always', 'operator', approvals.waiting[0]!.id);
    await first;
    expect(await gate().check(run, { details: { input: { command: 'npm test' } } })).toMatchObject({ by: 'standing' });
    void gate().check(run, { details: { input: { command: 'rm -rf .' } } });
    void gate().check(run);
    expect(approvals.waiting).toHaveLength(2);
  });

  it('denies on a no, and without an answer', async () => {
    const refused = gate().check(WRITE);
    approvals.decide('deny', 'operator', approvals.waiting[0]!.id);
    expect(await refused).toMatchObject({ allowed: false, by: 'operator' });
    const silent = gate().check(WRITE);
    await runtime.advance(4_999);
    expect(approvals.waiting).toHaveLength(1);
    await runtime.advance(1);
    expect(await silent).toMatchObject({ allowed: false, by: 'timeout' });
    expect(reported.map(([, { by }]) => by)).toEqual(['operator', 'timeout']);
  });

  it('keeps its questions across a restart', () => {
    void gate().check(WRITE);
    approvals.close();
    const later = new Approvals(runtime, { folder });
    expect(later.waiting).toMatchObject([{ kind: 'action', details: WRITE }]);
    later.close();
  });

  it('withdraws a question when its signal aborts', async () => {
    const abort = new AbortController();
    const asked = gate().check(WRITE, { signal: abort.signal });
    abort.abort();
    await expect(asked).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(approvals.items).toEqual([]);
  });

  it('limits the open questions of each agent', async () => {
    for (let n = 0; n < 100; n++) void gate().check({ ...WRITE, subject: `src/${n}.ts` });
    expect(await gate().check(WRITE)).toMatchObject({ allowed: false, by: 'too-many' });
    void gate().check({ ...WRITE, agent: 'venus' });
    expect(approvals.waiting).toHaveLength(101);
  });
});
