import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { removePrivately, writePrivately } from '../../system/files/private-file.js';
import { ChainSchema, GrantSchema, NodeKeySchema } from './certificate.js';
import { RemovalSchema } from './removal.js';

const VERSION = 2;

const hex = z.string().regex(/^[0-9a-f]*$/);

const MembershipStateSchema = z.strictObject({
  version: z.literal(VERSION),
  /** The mesh's root key. */
  mesh: NodeKeySchema,
  rootSeed: hex.length(64).optional(),
  /** Known to members only: the topic on the DHT derives from it. */
  meetingSecret: hex.length(64),
  chain: ChainSchema,
  /** Nodes of the mesh's private DHT; none means the public one. */
  bootstrap: z.array(z.string()),
  /** `ws://` addresses of other members, by node key. */
  addresses: z.record(z.string(), z.array(z.string())),
  given: z.array(z.string()),
  invites: z.array(
    z.strictObject({
      secret: hex,
      grant: GrantSchema,
      expiresAt: z.number(),
      state: z.enum(['open', 'used', 'revoked']),
      /** The node that used it, and when. */
      by: NodeKeySchema.optional(),
      usedAt: z.number().optional(),
    }),
  ),
  removals: z.array(RemovalSchema),
  /** Certificates of members that were met: the issuer and the signature of each. */
  met: z.array(z.tuple([NodeKeySchema, z.string().max(128)])),
  /** The other members, which can be shown, called and removed without having been met in this run. */
  members: z.array(
    z.strictObject({
      chain: ChainSchema,
      /** When this node met it last; null where a member vouched for it. */
      metAt: z.number().nullable(),
      /** The member that vouched for it, while it was never met. */
      by: NodeKeySchema.optional(),
    }),
  ),
});

export type MembershipState = z.infer<typeof MembershipStateSchema>;
export type KnownMember = MembershipState['members'][number];

export interface MembershipStore {
  load(): MembershipState | undefined;
  save(state: MembershipState): void;
  clear(): void;
}

/** What to do about a damaged file, which keeps the node from starting. */
export const WAY_OUT =
  'restore it from a copy, or move it out of the data folder and join again with a new invite (ecliptic join CODE)';

/** Stores the membership in the data folder, readable by the owner only; a crash leaves the old or the new one whole. */
export class MembershipFile implements MembershipStore {
  readonly #file: string;

  constructor(folder: string) {
    this.#file = join(folder, 'mesh.json');
  }

  load(): MembershipState | undefined {
    if (!existsSync(this.#file)) return undefined;
    let found: { version?: unknown; members?: unknown; given?: unknown };
    try {
      found = JSON.parse(readFileSync(this.#file, 'utf8'));
    } catch (error) {
      throw unusable(this.#file, `${describeError(error)}; ${WAY_OUT}`, error);
    }
    if (Number.isInteger(found?.version) && (found.version as number) > VERSION) {
      throw new EclipticError('SCHEMA_VERSION_MISMATCH', `${this.#file} was written by a later release`, {
        expected: VERSION,
        found: found.version,
      });
    }
    // Version 1 knew members by their addresses only.
    if (found?.version === 1) found = { members: [], given: [], ...found, version: VERSION };
    const parsed = MembershipStateSchema.safeParse(found);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    throw unusable(
      this.#file,
      `it is damaged at ${issue?.path.join('.') || 'its start'}: ${issue?.message}; ${WAY_OUT}`,
    );
  }

  save(state: MembershipState): void {
    this.#act(() => writePrivately(this.#file, JSON.stringify(state)));
  }

  clear(): void {
    this.#act(() => removePrivately(this.#file));
  }

  #act(act: () => void): void {
    try {
      act();
    } catch (error) {
      throw unusable(this.#file, describeError(error), error);
    }
  }
}

function unusable(file: string, reason: string, cause?: unknown): EclipticError {
  return new EclipticError('DATA_FOLDER', `cannot use ${file}: ${reason}`, { file }, cause);
}

/** The membership in memory, and in the store if there is one. */
export class MembershipRecord {
  readonly #store: MembershipStore | undefined;
  #state: MembershipState | undefined;

  constructor(store: MembershipStore | undefined) {
    this.#store = store;
    this.#state = store?.load();
  }

  get state(): MembershipState | undefined {
    return this.#state;
  }

  get required(): MembershipState {
    if (this.#state) return this.#state;
    throw new EclipticError('NO_MESH', 'this node belongs to no mesh yet; use: ecliptic invite, or ecliptic join CODE');
  }

  save(state: MembershipState): void {
    this.#store?.save(state);
    this.#state = state;
  }

  clear(): void {
    this.#store?.clear();
    this.#state = undefined;
  }
}
