import { attachmentsIn, readRef, withAttachments } from '../../../src/objects/reference.js';
import {
  isOfProposal,
  proposalIn,
  readAccept,
  readNotice,
  readProposal,
  readReject,
} from '../../../src/work/proposals/proposal-wire.js';
import { readSwarmMessage } from '../../../src/work/swarm/swarm-messages.js';
import { readPlan } from '../../../src/work/swarm/swarm-plan.js';
import { EntrySchema, OpeningSchema, RecordSchema } from '../../../src/work/swarm/swarm-records.js';
import { type FuzzTarget, must, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const reference = {
  object: '01ARZ3NDEKTSV4RRFFQ69G5FAV',
  node: 'ab'.repeat(32),
  owner: 'sun',
  key: 'k'.repeat(43),
  name: 'a.txt',
  mediaType: 'text/plain',
  size: 3,
  sha256: 'a'.repeat(64),
  expiresAt: 1,
};
const SEEDS: unknown[] = [
  { description: 'Fix it', requiredCapabilities: ['a.b'], deadline: 30_000, input: { a: 1 }, proposal: 'p1' },
  { proposal: 'p1', accepted: true, deadlineMs: 1 },
  { proposal: 'p1', reason: 'busy', code: 'QUEUE_FULL' },
  { type: 'vote', epoch: 1, granted: true, trial: false },
  {
    type: 'append',
    epoch: 1,
    prior: 0,
    priorEpoch: 0,
    entries: [{ epoch: 1, record: { type: 'lease', subTask: 'a', holder: 'sun' } }],
    settled: 0,
  },
  { type: 'pulse', epoch: 1, load: 0, holding: [1], members: 2, ended: false },
  { type: 'found', lease: 1, subTask: 'a', finding: { result: 1 }, usage: { inputTokens: 1 } },
  {
    subTasks: [
      { id: 'a', description: 'x', requiredCapabilities: ['a.b'], dependsOn: ['b'] },
      { id: 'b', requiredCapabilities: ['c'] },
    ],
  },
  { attachments: [reference], text: 'x' },
  reference,
];

/** What agents say about work: nothing that they can write makes a reader fail otherwise than by refusing. */
export const target: FuzzTarget = {
  name: 'work-messages',
  about: 'proposals, swarms and references to files in payloads',
  seeds: SEEDS.map((_, index) => Buffer.of(index)),
  run(input) {
    const payload = jsonOf(input, SEEDS);
    for (const type of ['task-proposal', 'notification', 'response', 'error'] as const) {
      const envelope = { id: 'e', correlationId: 't', type, payload } as never;
      readProposal(envelope);
      isOfProposal(envelope);
    }
    readAccept(payload);
    readReject(payload);
    readNotice(payload);
    proposalIn(payload);
    const message = readSwarmMessage(payload);
    if (message)
      mustEqual(readSwarmMessage(JSON.parse(JSON.stringify(message))), message, 'a swarm message read twice');
    for (const schema of [EntrySchema, OpeningSchema, RecordSchema]) schema.safeParse(payload);
    unlessRefused(() => readPlan(payload, 'task'));
    const found = attachmentsIn(payload);
    if (found.length > 0 && typeof payload === 'object') {
      mustEqual(attachmentsIn(withAttachments({ text: 'x' }, found)), found, 'references written and read');
    }
    const one = unlessRefused(() => readRef(payload));
    if (one)
      must(
        JSON.stringify(readRef(JSON.parse(JSON.stringify(one)))) === JSON.stringify(one),
        () => 'a reference read twice',
      );
  },
};
