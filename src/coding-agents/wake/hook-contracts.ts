import { z } from 'zod';
import { WAKE_CLIENTS, type WakeClient } from './client-session.js';

export type HookMoment = 'begins' | 'turn-ends' | 'ends';

/** What the hooks of each client are called, and what they mean here. */
const EVENTS: Readonly<Record<WakeClient, Readonly<Record<string, HookMoment>>>> = {
  'claude-code': { SessionStart: 'begins', Stop: 'turn-ends', SessionEnd: 'ends' },
  codex: { SessionStart: 'begins', Stop: 'turn-ends' },
  gemini: { SessionStart: 'begins', AfterAgent: 'turn-ends', SessionEnd: 'ends' },
  cursor: { sessionStart: 'begins', stop: 'turn-ends', sessionEnd: 'ends' },
  opencode: { session: 'begins' },
};

/** How each client is told to go on, and with what. A client that is told nothing goes its way. */
const GO_ON: Readonly<Record<WakeClient, (pointer: string) => object>> = {
  'claude-code': (reason) => ({ decision: 'block', reason }),
  codex: (reason) => ({ decision: 'block', reason }),
  gemini: (reason) => ({ decision: 'deny', reason }),
  cursor: (followup_message) => ({ followup_message }),
  opencode: () => ({}),
};

const text = z.string().max(4_096).optional().catch(undefined);

/** What clients write to their hooks, as far as it matters here; each leaves out what the others have. */
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

/** Has that client such a hook? */
export function isHook(client: string, event: string): boolean {
  const known = WAKE_CLIENTS.find((each) => each === client);
  return known !== undefined && Object.hasOwn(EVENTS[known], event);
}

/** Reads one call of a hook; undefined when that client has no such hook. */
export function readHookCall(client: string, event: string, payload: unknown): HookCall | undefined {
  const known = WAKE_CLIENTS.find((each) => each === client);
  if (!known || !isHook(client, event)) return undefined;
  const said = PayloadSchema.safeParse(payload);
  const found = said.success ? said.data : {};
  const moment = EVENTS[known][event]!;
  // A turn that its user broke off is not prolonged.
  if (moment === 'turn-ends' && found.status !== undefined && found.status !== 'completed') return undefined;
  return {
    client: known,
    moment,
    session: found.session_id ?? found.conversation_id ?? found.sessionID,
    server: found.serverUrl,
    cwd: found.cwd ?? found.workspace_roots?.[0],
  };
}

/** What the hook answers; an empty object lets the client go its way. */
export function hookAnswer(client: string, pointer: string | undefined): object {
  const known = WAKE_CLIENTS.find((each) => each === client);
  return known && pointer !== undefined ? GO_ON[known](pointer) : {};
}
