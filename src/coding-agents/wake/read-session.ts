import { z } from 'zod';
import { type ClientSession, passedOn } from './client-session.js';

const SessionSchema = z.object({
  version: z.string().max(100).optional(),
  parent: z.int().positive().optional(),
  env: z.record(z.string(), z.string().max(32_768)).default({}),
  headless: z.boolean().optional(),
  session: z.string().max(100).optional(),
});

/** Reads what a process says of its client; one that says nothing sensible can be reached all the same, but not woken. */
export function readClientSession(value: unknown, about: { client: string; checkout: string }): ClientSession {
  const read = SessionSchema.safeParse(value ?? {});
  if (!read.success) return { ...about, env: {} };
  return { ...read.data, ...about, env: passedOn(read.data.env) };
}
