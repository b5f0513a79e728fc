import { z } from 'zod';
import { WAKE_CLIENTS, type WakeClient } from './client-session.js';

export type HookMoment = 'begins' | 'turn-ends' | 'ends';

interface HookContract {
  readonly events: Readonly<Record<string, HookMoment>>;
  /** The answer that prolongs a turn. An empty answer lets the client end it. */
  readonly goOn: (pointer: string) => object;
}

const CONTRACTS: Readonly<Record<WakeClient, HookContract>> = {
  'claude-code': {
    events: { SessionStart: 'begins', Stop: 'turn-ends', SessionEnd: 'ends' },
    goOn: (reason) => ({ decision: 'block', reason }),
  },
  codex: {
    events: { SessionStart: 'begins', Stop: 'turn-ends' },
    goOn: (reason) => ({ decision: 'block', reason }),
  },
  gemini: {
    events: { SessionStart: 'begins', AfterAgent: 'turn-ends', SessionEnd: 'ends' },
    goOn: (reason) => ({ decision: 'deny', reason }),
  },
  cursor: {
    events: { sessionStart: 'begins', stop: 'turn-ends', sessionEnd: 'ends' },
    goOn: (followup_message) => ({ followup_message }),
  },
  opencode: { events: { session: 'begins' }, goOn: () => ({}) },
};

const text = z.string().max(4_096).optional().catch(undefined);

/** The union of the fields that the clients write to their hooks. */
const PayloadSchema = z.object({
  session_id: text,
  conversation_id: text,
  sessionID: text,
  serverUrl: text,
  cwd: text,
  workspace_roots: z.array(z.string().max(4_096)).max(100).optional().catch(undefined),
  status: text,
});

export interface HookCall {
  readonly client: WakeClient;
  readonly moment: HookMoment;
  readonly session: string | undefined;
  readonly server: string | undefined;
  readonly cwd: string | undefined;
}

export function isHook(client: string, event: string): boolean {
  const known = knownClient(client);
  return known !== undefined && Object.hasOwn(CONTRACTS[known].events, event);
}

/** Reads one call of a hook; undefined when the client has no such hook, or the call needs no answer. */
export function readHookCall(client: string, event: string, payload: unknown): HookCall | undefined {
  const known = knownClient(client);
  if (!known || !isHook(client, event)) return undefined;
  const found = PayloadSchema.safeParse(payload).data ?? {};
  const moment = CONTRACTS[known].events[event]!;
  // A turn that the user interrupted is not prolonged.
  if (moment === 'turn-ends' && found.status !== undefined && found.status !== 'completed') return undefined;
  return {
    client: known,
    moment,
    session: found.session_id ?? found.conversation_id ?? found.sessionID,
    server: found.serverUrl,
    cwd: found.cwd ?? found.workspace_roots?.[0],
  };
}

export function hookAnswer(client: string, pointer: string | undefined): object {
  const known = knownClient(client);
  return known && pointer !== undefined ? CONTRACTS[known].goOn(pointer) : {};
}

function knownClient(client: string): WakeClient | undefined {
  return WAKE_CLIENTS.find((each) => each === client);
}
