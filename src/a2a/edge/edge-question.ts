import { z } from 'zod';
import { fromWireError, toWireError } from '../../mesh/codec.js';
import { LIMITS } from '../../mesh/limits.js';
import type { Network } from '../../network/peers/network.js';
import { EDGE, ITEM } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';
import type { OperationProtocol } from './operation-exchange.js';

const name = z.string().min(1).max(LIMITS.nameChars);

const QuestionSchema = z.object({
  operation: z.string().max(64),
  params: z.unknown(),
  /** The caller's name and sandbox, as the asking node has authenticated it. A name with `@` is an agent of a node. */
  caller: name.regex(/^[^@]+$/, 'is of another node'),
  sandbox: name.nullable(),
  /** The Idempotency-Key. */
  key: z.string().max(LIMITS.textChars).optional(),
  chain: z.array(name).max(64).optional(),
  /** The agent that the asking node has chosen. */
  agent: name.optional(),
  /** The number of the last event that the reader of a resumed stream has seen. */
  after: z.int().nonnegative().optional(),
});
export type Question = z.infer<typeof QuestionSchema>;

/** Operations among the owner's devices, which answer for one caller of all of them. */
export function edgeProtocol(network: Pick<Network, 'isOwnerDevice'>): OperationProtocol<Question> {
  return {
    kind: ITEM.edge,
    since: EDGE,
    question: QuestionSchema,
    serving: { items: 1_000, bytes: 32 * 1_048_576 },
    refuse: (node) => (network.isOwnerDevice(node) ? undefined : notGranted(node)),
    refusal: 'asked for tasks as a device of the owner’s, which it is not',
    errors: { write: toWireError, read: fromWireError },
  };
}

function notGranted(node: string): EclipticError {
  const message = 'only devices that joined with an owner’s invite (ecliptic invite --owner) speak for callers here';
  return new EclipticError('NOT_GRANTED', message, { node });
}
