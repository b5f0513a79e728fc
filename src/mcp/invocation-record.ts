import { z } from 'zod';
import { SCHEMA_VERSION } from '../mesh/schemas.js';
import { EclipticError } from '../runtime/errors.js';

/** One tool call, as it is remembered: who called what with what, what came of it, and how long it took. */
export const InvocationRecordSchema = z.strictObject({
  schemaVersion: z.literal(SCHEMA_VERSION),
  id: z.string().min(1),
  /** The conversation that it belongs to, if to any. */
  thread: z.string().min(1).optional(),
  /** The tool by its full name. */
  tool: z.string().min(1),
  /** The agent that offers it. */
  agent: z.string().min(1),
  caller: z.string().min(1),
  arguments: z.record(z.string(), z.json()),
  /** What it gave; absent where it failed. */
  result: z.json().optional(),
  error: z.strictObject({ code: z.string(), message: z.string(), agent: z.string() }).optional(),
  startedAt: z.number(),
  durationMs: z.number().nonnegative(),
});

export type InvocationRecord = Readonly<z.infer<typeof InvocationRecordSchema>>;

export function serializeInvocation(record: InvocationRecord): string {
  return JSON.stringify(record);
}

export function deserializeInvocation(text: string): InvocationRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new EclipticError('INVALID_ENVELOPE', 'the invocation record is not JSON', {}, cause);
  }
  const found = (value as { schemaVersion?: unknown } | null)?.schemaVersion;
  if (found !== SCHEMA_VERSION) {
    const message = `this release reads invocation records of schema version ${SCHEMA_VERSION}, not ${JSON.stringify(found)}`;
    throw new EclipticError('SCHEMA_VERSION_MISMATCH', message, { expected: SCHEMA_VERSION, found });
  }
  const parsed = InvocationRecordSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new EclipticError('INVALID_ENVELOPE', `the invocation record is wrong: ${faults.join('; ')}`, { faults });
}

const REDACTED = '[redacted]';

/** Arguments as they may be written down. */
export function redact(
  args: Readonly<Record<string, unknown>>,
  secrets: readonly string[] | undefined,
): Readonly<Record<string, unknown>> {
  if (!secrets?.length) return args;
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [name, secrets.includes(name) ? REDACTED : value]),
  );
}
