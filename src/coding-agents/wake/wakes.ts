import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Member } from '../mailbox/member.js';
import type { AdapterFor, WakeAdapter } from './adapters.js';
import { type ClientSession, passedOn, wakeClientOf } from './client-session.js';
import type { HookCall } from './hook-contracts.js';
import { MemberWaking, type WakeRow, type WakeTest } from './member-waking.js';
import { type WakeInit, type WakeSettings, wakeSettings } from './wake-machine.js';

export interface WakesComponents {
  runtime: Runtime;
  adapterFor: AdapterFor;
}

/** A hook of a client was called, by a process with these above it. */
export interface HeardHook extends HookCall {
  readonly env: Readonly<Record<string, string>>;
  readonly ancestors: readonly number[];
}

/** What a test showed of one member. */
export type TestedRow = WakeRow & { readonly test: WakeTest };

/** Gets agents that do nothing to look at their mail, as far as their clients let themselves be woken. */
export class Wakes {
  readonly #components: WakesComponents;
  readonly #settings: WakeSettings;
  readonly #waking = new Map<Member, MemberWaking>();

  constructor(components: WakesComponents, init: WakeInit = {}) {
    this.#components = components;
    this.#settings = wakeSettings(init);
  }

  attach(member: Member, session: ClientSession): void {
    const { runtime, adapterFor } = this.#components;
    this.#waking.set(member, new MemberWaking({ runtime, adapterFor, settings: this.#settings }, member, session));
  }

  detach(member: Member): void {
    this.#waking.get(member)?.close();
    this.#waking.delete(member);
  }

  /** A call of the member told the client's name for its session. */
  heardCall(member: Member, session: string | undefined): void {
    if (session !== undefined) this.#waking.get(member)?.learn({ session });
  }

  /** Whoever runs that member's agent takes pointers for it, or none any longer, and why. */
  use(name: string, way: WakeAdapter | string): void {
    this.#named(name).use(way);
  }

  /** A hook was called. What its client is to go on for, if anything. */
  async heardHook(hook: HeardHook): Promise<string | undefined> {
    const waking = this.#whose(hook);
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

  /** Tests the way in to each of those, or to all. */
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

  /** The member whose client called that hook; undefined when it may be several. */
  #whose({ client, session, ancestors, cwd }: HeardHook): MemberWaking | undefined {
    const all = [...this.#waking.values()].filter((waking) => wakeClientOf(waking.session.client) === client);
    const ways: readonly ((session: ClientSession) => boolean)[] = [
      (known) => session !== undefined && known.session === session,
      ({ parent }) => parent !== undefined && ancestors.includes(parent),
      ({ checkout }) => checkout === cwd,
    ];
    for (const way of ways) {
      const found = all.filter((waking) => way(waking.session));
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

/** Reads what a process says of its client; one that says nothing sensible can be reached all the same, but not woken. */
export function readClientSession(value: unknown, about: { client: string; checkout: string }): ClientSession {
  const read = SessionSchema.safeParse(value ?? {});
  if (!read.success) return { ...about, env: {} };
  return { ...read.data, ...about, env: passedOn(read.data.env) };
}
