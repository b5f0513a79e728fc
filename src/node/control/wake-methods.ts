import { passedOn } from '../../coding-agents/wake/client-session.js';
import { readHookCall } from '../../coding-agents/wake/hook-contracts.js';
import type { Wakes } from '../../coding-agents/wake/wakes.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** What `ecliptic hook` and `ecliptic doctor --wake` ask of the node. */
export function wakeMethods(wakes: () => Wakes): Readonly<Record<string, ControlMethod>> {
  return {
    /** A client's hook was called; the answer says what the client is to go on for, if anything. */
    async 'wake.hook'(params) {
      const read = new Params(params);
      const call = readHookCall(read.string('client'), read.string('event'), read.value('payload'));
      if (!call) return { pointer: null };
      const ancestors = read.listOf('ancestors', isPid, 'a list of process numbers') ?? [];
      const env = passedOn((params.env ?? {}) as Record<string, unknown>);
      return { pointer: (await wakes().heardHook({ ...call, env, ancestors })) ?? null };
    },
    wake() {
      return wakes().rows;
    },
    'wake.test'(params) {
      const read = new Params(params);
      const { withinMs } = read.optional({ withinMs: 'number' });
      return wakes().test(read.listOf('names', isText, 'a list of names') ?? [], withinMs);
    },
  };
}

function isPid(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
