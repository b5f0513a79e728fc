import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { A2AObservability } from '../../mesh/observability.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { Approvals } from '../../system/approvals/approvals.js';
import { AnswerRecord, deciderOf } from './answer-record.js';

const LAPTOP = { node: 'a'.repeat(64), name: 'laptop', answer: { id: 'A1', signature: 's' } };

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-answers-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

function start() {
  const runtime = new SimulatedRuntime({ seed: 3 });
  const approvals = new Approvals(runtime);
  const components = { runtime, observability: new A2AObservability(), approvals, ownName: 'desktop' };
  const open = () => new AnswerRecord(components, { folder });
  const effects: string[] = [];
  const act = (name: string) => async () => {
    effects.push(name);
  };
  return { runtime, approvals, open, effects, act };
}

describe('the record of answers', () => {
  it('has an answer carried out once, however often it comes, also after a restart [FC.33]', async () => {
    const { open, effects, act } = start();
    const record = open();
    await Promise.all([
      record.carryOut('mail:1', 'done', LAPTOP, act('first')),
      record.carryOut('mail:1', 'done', LAPTOP, act('second')),
    ]);
    await open().carryOut('mail:1', 'done', LAPTOP, act('third'));
    expect(effects).toEqual(['first']);
    // The id of one answer is worth nothing for another item or action, nor from another device.
    await record.carryOut('mail:2', 'done', LAPTOP, act('other item'));
    await record.carryOut('mail:1', 'reply', LAPTOP, act('other action'));
    await record.carryOut('mail:1', 'done', { ...LAPTOP, node: 'b'.repeat(64) }, act('other device'));
    expect(effects).toEqual(['first', 'other item', 'other action', 'other device']);
  });

  it('knows an answer whose record a crash prevented by the decision of the approval request [FC.33]', async () => {
    const { approvals, open, effects, act } = start();
    const [asked] = approvals.request({ kind: 'action', subject: 's', summary: 'may mars?' });
    approvals.decide('deny', deciderOf(LAPTOP), asked!.id);
    await open().carryOut(`approval:${asked!.id}`, 'deny', LAPTOP, act('again'));
    expect(effects).toEqual([]);
    await open().carryOut(`approval:${asked!.id}`, 'allow-once', LAPTOP, act('another answer'));
    expect(effects).toEqual(['another answer']);
  });

  it('says on which device an item was answered, how and when, or that time decided [FC.33]', async () => {
    const { runtime, approvals, open, act } = start();
    const record = open();
    await record.carryOut('mail:1', 'done', LAPTOP, act('x'));
    await record.carryOut('mail:2', 'reply', undefined, act('x'));
    await runtime.advance(10_000);
    expect(record.whyGone('mail:1')).toMatchObject({
      ...{ code: 'ALREADY_ANSWERED', message: 'answered on desktop by laptop, done, 10 s ago' },
      details: { action: 'done', on: 'desktop', by: 'laptop' },
    });
    expect(open().whyGone('mail:2').message).toBe('answered on desktop, reply, 10 s ago');
    const [asked] = approvals.request({ kind: 'action', subject: 's', summary: 'may mars?', timeoutMs: 5_000 });
    await runtime.advance(305_000);
    const late = record.whyGone(`approval:${asked!.id}`);
    expect(late.message).toBe('denied on desktop 5 min ago, because no answer came in time');
    expect(record.whyGone('mail:3')).toMatchObject({ code: 'APPROVAL_NOT_FOUND' });
  });

  it('lets a failed answer be given again [FC.33]', async () => {
    const { open, effects, act } = start();
    const record = open();
    const fails = () => Promise.reject(new Error('no'));
    await expect(record.carryOut('mail:1', 'done', LAPTOP, fails)).rejects.toThrow('no');
    await record.carryOut('mail:1', 'done', LAPTOP, act('done'));
    expect(effects).toEqual(['done']);
  });
});
