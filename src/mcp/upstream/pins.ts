import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { statement } from '../../network/membership/statement.js';
import { JsonFile } from '../../system/files/private-file.js';
import { type Definition, DefinitionSchema, keyOf } from '../definitions.js';

const PinSchema = z.strictObject({
  /** SHA-256 of what is pinned of the definition. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  definition: DefinitionSchema,
  at: z.number(),
});

const FileSchema = z.strictObject({
  version: z.literal(1),
  /** By the server's name, then by kind and name. */
  servers: z.record(z.string(), z.record(z.string(), PinSchema)),
});

export type Pin = Readonly<z.infer<typeof PinSchema>>;

/** What is to be pinned. */
export interface Fresh {
  readonly definition: Definition;
  readonly slot: string;
  readonly hash: string;
}

export interface PinsInit {
  /** The data folder. Without one, the pins end with the process. */
  folder?: string;
}

/** What upstream servers' definitions were when they were first seen, or last approved. */
export class Pins {
  readonly #file: JsonFile<z.infer<typeof FileSchema>> | undefined;
  #servers: Readonly<Record<string, Readonly<Record<string, Pin>>>>;

  constructor({ folder }: PinsInit = {}) {
    this.#file = folder === undefined ? undefined : new JsonFile(join(folder, 'pins.json'), FileSchema);
    this.#servers = this.#file?.load()?.servers ?? {};
  }

  /** Whether this server was ever seen. */
  knows(server: string): boolean {
    return Object.hasOwn(this.#servers, server);
  }

  of(server: string): Readonly<Record<string, Pin>> {
    return this.knows(server) ? this.#servers[server]! : {};
  }

  get(server: string, slot: string): Pin | undefined {
    const own = this.of(server);
    return Object.hasOwn(own, slot) ? own[slot] : undefined;
  }

  /** Pins definitions of a server as they are now; on disk when this returns. */
  pin(server: string, fresh: readonly Fresh[], at: number): void {
    const made = fresh.map(({ slot, hash, definition }) => [slot, { hash, definition: pinned(definition), at }]);
    const servers = { ...this.#servers, [server]: { ...this.of(server), ...Object.fromEntries(made) } };
    this.#file?.save({ version: 1, servers });
    this.#servers = servers;
  }
}

export function slotOf(definition: Definition): string {
  return `${definition.kind} ${keyOf(definition)}`;
}

/** SHA-256 over everything that a model or a caller goes by, whatever the order of its keys. */
export function fingerprint(definition: Definition): string {
  return createHash('sha256')
    .update(statement('tool definition', pinned(definition)))
    .digest('hex');
}

/** Pictures and notes for programs may change. */
function pinned(definition: Definition): Definition {
  const { _meta, icons, ...rest } = definition;
  return rest as Definition;
}
