import { z } from 'zod';
import { PROVIDER_TYPES, type ProviderRegistration } from '../adapter/provider-adapter.js';
import { NormalizedProviderError } from '../adapter/provider-errors.js';
import { DEFAULT_INTERVAL_MS, MIN_INTERVAL_MS } from '../health/health.js';

const NAME = /^[\w][\w./-]*$/;
const name = z.string().max(128).regex(NAME, 'must be made of letters, digits, "_", "-", "." and "/"');

const RegistrationSchema = z.strictObject({
  id: name,
  type: z.enum(PROVIDER_TYPES),
  config: z.unknown().refine((value) => value !== undefined, 'is missing'),
  workspaceId: name,
  concurrencyLimit: z.int().min(1).max(100),
  healthCheckIntervalMs: z.int().min(MIN_INTERVAL_MS).default(DEFAULT_INTERVAL_MS),
  capabilities: z.array(z.string().min(1).max(300)).max(256).default([]),
  priority: z.number().default(0),
  laneId: name.optional(),
});

export type CheckedRegistration = Required<Omit<ProviderRegistration, 'laneId'>> & { laneId?: string | undefined };

/** A registration with every default filled in; one that cannot be used is refused, with all that is wrong with it. */
export function checkRegistration(registration: ProviderRegistration): CheckedRegistration {
  const { success, data, error } = RegistrationSchema.safeParse(registration);
  if (success) return data;
  const faults = error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  const { id } = (registration ?? {}) as { id?: unknown };
  const message = `provider ${JSON.stringify(id)} cannot be registered: ${faults.join('; ')}`;
  throw new NormalizedProviderError('PROVIDER_INIT_FAILED', message, 'internal', { details: { faults } });
}
