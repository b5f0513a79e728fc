import { z } from 'zod';
import { NormalizedProviderError, type ProviderErrorCode } from '../adapter/errors.js';

/** The URL scheme of agents of this mesh. */
export const MESH = 'mesh:';
/** Endpoints of one adapter, configured and discovered. */
export const MAX_ENDPOINTS = 100;

const EndpointSchema = z.object({
  id: z.string().min(1).max(128),
  /** An agent's base URL, or that of its card; `mesh:ADDRESS` for an agent of another node of this mesh. */
  url: z.union([z.url({ protocol: /^https?$/ }), z.string().regex(new RegExp(`^${MESH}.`))]),
  /** The smallest is the first choice. */
  priority: z.number(),
  /** In addition to the skills in its card. */
  capabilities: z.array(z.string().min(1)).readonly(),
});

const ConfigSchema = z.object({
  endpoints: z
    .array(EndpointSchema)
    .max(MAX_ENDPOINTS)
    .refine((list) => new Set(list.map(({ id }) => id)).size === list.length, 'two endpoints have the same id')
    .readonly(),
  /** Limit for a whole delegation. Default: it ends after an hour without news. */
  timeoutMs: z.number().positive().optional(),
  /** Does new work go to another endpoint while one is down? Work in flight never moves. */
  failoverEnabled: z.boolean(),
});

const DelegationSchema = z.object({
  taskDescription: z.string().min(1),
  requiredCapabilities: z.array(z.string()).readonly().default([]),
  context: z.record(z.string(), z.unknown()).readonly().default({}),
});

export type A2AEndpoint = Readonly<z.infer<typeof EndpointSchema>>;
export type A2AConfig = Readonly<z.infer<typeof ConfigSchema>>;
export type A2ADelegation = Readonly<z.infer<typeof DelegationSchema>>;

export interface A2AResult {
  readonly endpointId: string;
  readonly result: unknown;
  readonly correlationId: string;
  readonly duration: number;
}

export function checkConfig(config: A2AConfig): A2AConfig {
  return check(ConfigSchema, config, 'PROVIDER_INIT_FAILED', 'the A2A endpoints cannot be used');
}

export function checkDelegation(input: A2ADelegation): A2ADelegation {
  return check(DelegationSchema, input, 'PROVIDER_INVALID_INPUT', 'the delegation is invalid');
}

export function isEndpoint(value: unknown): value is A2AEndpoint {
  return EndpointSchema.safeParse(value).success;
}

function check<T>(schema: z.ZodType<T>, value: unknown, code: ProviderErrorCode, what: string): T {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const faults = error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new NormalizedProviderError(code, `${what}: ${faults.join('; ')}`, 'a2a', { details: { faults } });
}
