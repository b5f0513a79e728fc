import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Member } from '../mailbox/member.js';
import type { AdapterFor, WakeAdapter } from './adapters.js';
import { type ClientSession, passedOn, wakeClientOf } from './client-session.js';
import type { HookCall } from './hook-contracts.js';
import { MemberWaking, type WakeRow, type WakeTest } from './member-waking.js';
import { type WakeInit, type WakeSettings, wakeSettings } from './wake-machine.js';

/** A call of a client's hook, with the environment and ancestors of its process. */
export interface HeardHook extends HookCall {
  readonly env: Readonly<Record<string, string>>;
  readonly ancestors: readonly number[];
}

export type TestedRow = WakeRow & { readonly test: WakeTest };

/** Wakes idle agents for their mail, as far as their clients allow it. */
export class Wakes {
  readonly #components: { runtime: Runtime; adapterFor: AdapterFor };
  readonly #settings: WakeSettings;
  readonly #waking = new Map<Member, MemberWaking>();

  constructor(components: { runtime: Runtime; adapterFor: AdapterFor }, init: WakeInit = {}) {
    this.#components = components;
    this.#settings = wakeSettings(init);
  }

  attach(member: Member, session: ClientSession): void {
    this.#waking.set(member, new MemberWaking({ ...this.#components, settings: this.#settings }, member, session));
  }

  detach(member: Member): void {
    this.#waking.get(member)?.close();
    this.#waking.delete(member);
  }

  /** A call of the member may carry the client's session id. */
  heardCall(member: Member, session: string | undefined): void {
    if (session !== undefined) this.#waking.get(member)?.learn({ session });
  }

  /** Sets an adapter that the runner of the agent provides, or the reason why it no longer does. */
  use(name: string, way: WakeAdapter | string): void {
    this.#named(name).use(way);
  }

  /** Returns the pointer for which the client should prolong its turn, if any. */
  async heardHook(hook: HeardHook): Promise<string | undefined> {
    const waking = this.#callerOf(hook);
    if (!waking) return undefined;
    const { session, server, env } = hook;
    if (hook.moment === 'ends') {
      waking.use('its session has ended');
      return undefined;
    }
    waking.learn({ session, server, env });
    return hook.moment === 'turn-ends' ? waking.turnEnded() : undefined;
  }

  get rows(): WakeRow[] {
    return [...this.#waking.values()].map(({ row }) => row);
  }

  /** Tests whether the named members, or all, can be woken. */
  test(names: readonly string[], withinMs?: number): Promise<TestedRow[]> {
    const chosen = names.length > 0 ? names.map((name) => this.#named(name)) : [...this.#waking.values()];
    return Promise.all(
      chosen.map(async (waking) => {
        const test = await waking.test(withinMs);
        return { ...waking.row, test };
      }),
    );
  }

  #named(name: string): MemberWaking {
    const found = [...this.#waking.values()].find(({ member }) => member.name === name);
    if (found) return found;
    throw new EclipticError('AGENT_NOT_FOUND', `no coding agent called "${name}" is here now`, { name });
  }

  /** The member whose client called the hook: by session, else by process, else by folder; undefined if ambiguous. */
  #callerOf({ client, session, ancestors, cwd }: HeardHook): MemberWaking | undefined {
    const all = [...this.#waking.values()].filter((waking) => wakeClientOf(waking.session.client) === client);
    const criteria: readonly ((session: ClientSession) => boolean)[] = [
      (known) => session !== undefined && known.session === session,
      ({ parent }) => parent !== undefined && ancestors.includes(parent),
      ({ checkout }) => checkout === cwd,
    ];
    for (const criterion of criteria) {
      const found = all.filter((waking) => criterion(waking.session));
      if (found.length > 0) return found.length === 1 ? found[0] : undefined;
    }
    return undefined;
  }
}

const SessionSchema = z.object({
  version: z.string().max(100).optional(),
  parent: z.int().positive().optional(),
  env: z.record(z.string(), z.string().max(32_768)).default({}),
  headless: z.boolean().optional(),
  session: z.string().max(100).optional(),
});

/** Reads the session that a process reports. A malformed one makes a member that cannot be woken. */
export function readClientSession(value: unknown, about: { client: string; checkout: string }): ClientSession {
  const read = SessionSchema.safeParse(value ?? {});
  if (!read.success) return { ...about, env: {} };
  return { ...read.data, ...about, env: passedOn(read.data.env) };
}
