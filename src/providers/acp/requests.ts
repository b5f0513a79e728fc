import { describeError, EclipticError } from '../../runtime/errors.js';
import { lineDiff } from '../../runtime/line-diff.js';
import { cutText } from '../../runtime/text.js';
import type { ActionGate, ActionRuling } from '../../system/approvals/action-gate.js';
import type { Workspace } from '../../system/files/workspace.js';
import type { AcpSdk, RequestPermissionRequest, RequestPermissionResponse } from './sdk.js';
import type { Conversation } from './sessions.js';
import { commandLine, type Terminals } from './terminals.js';
import type { Turn } from './turn.js';

interface RequestsInit {
  readonly agent: string;
  readonly workspace: Workspace;
  readonly terminals: Terminals;
  readonly gate: ActionGate;
  readonly find: (session: string) => Conversation | undefined;
}

/** Answers an agent's requests for permission, files and commands. Each passes the action gate. */
export function answerAgent(sdk: AcpSdk, init: RequestsInit): ReturnType<AcpSdk['client']> {
  const { terminals } = init;
  const workspaceOf = (session: string) => init.find(session)?.workspace ?? init.workspace;
  const { client } = sdk.methods;
  const turnOf = (session: string) => init.find(session)?.turn;
  const allow = (session: string, action: string, subject: string, diff?: () => Promise<readonly string[]>) => {
    const turn = requireTurn(turnOf(session), session);
    const { agent, gate } = init;
    const { correlationId, signal } = turn;
    const options = { correlationId, signal, diff, folder: workspaceOf(session).folder };
    return turn.decided((onWaiting) =>
      gate.require({ agent, provider: agent, action, subject }, { ...options, onWaiting }),
    );
  };
  const handle = async <T>(work: () => T | Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw refusal(sdk, error);
    }
  };
  return sdk
    .client({ name: 'ecliptic' })
    .onNotification(client.session.update, ({ params }) => init.find(params.sessionId)?.hear(params.update))
    .onRequest(client.session.requestPermission, ({ params }) => handle(() => decide(init, params)))
    .onRequest(client.fs.readTextFile, ({ params }) =>
      handle(async () => {
        const { sessionId, path, line, limit } = params;
        const workspace = workspaceOf(sessionId);
        await allow(sessionId, 'fs.read', workspace.shown(await workspace.locate(path)));
        return { content: await workspace.read(path, line, limit) };
      }),
    )
    .onRequest(client.fs.writeTextFile, ({ params }) =>
      handle(async () => {
        const { sessionId, path, content } = params;
        const workspace = workspaceOf(sessionId);
        const subject = workspace.shown(await workspace.locate(path));
        await allow(sessionId, 'fs.write', subject, () => workspace.difference(path, content));
        await workspace.write(path, content);
      }),
    )
    .onRequest(client.terminal.create, ({ params }) =>
      handle(async () => {
        const workspace = workspaceOf(params.sessionId);
        await workspace.locate(params.cwd ?? '.');
        await allow(params.sessionId, 'terminal.run', commandLine(params));
        return { terminalId: await terminals.create(params, workspace) };
      }),
    )
    .onRequest(client.terminal.output, ({ params }) => handle(() => terminals.get(params.terminalId).output))
    .onRequest(client.terminal.waitForExit, ({ params }) => handle(() => terminals.get(params.terminalId).exited))
    .onRequest(client.terminal.kill, ({ params }) => handle(() => terminals.get(params.terminalId).kill()))
    .onRequest(client.terminal.release, ({ params }) => handle(() => terminals.release(params.terminalId)));
}

/** Where the turn is cancelled, its questions are withdrawn. */
async function decide(
  { agent, gate, workspace, find }: RequestsInit,
  request: RequestPermissionRequest,
): Promise<RequestPermissionResponse> {
  const session = find(request.sessionId);
  const turn = session?.turn;
  if (!turn || turn.signal.aborted) return CANCELLED;
  const { action, subject } = permissionAction(request);
  const { rawInput, locations } = request.toolCall;
  const details = { ...(rawInput !== undefined && { input: rawInput }), ...(locations && { locations }) };
  const summary = `${agent} asks: ${subject}`;
  try {
    const { correlationId, signal } = turn;
    const { folder } = session?.workspace ?? workspace;
    const options = { summary, details, diff: () => diffOf(request), folder, correlationId, signal };
    const ruling = await turn.decided((onWaiting) =>
      gate.check({ agent, provider: agent, action, subject }, { ...options, onWaiting }),
    );
    return answerPermission(ruling, request.options);
  } catch (error) {
    if (error instanceof EclipticError && error.code === 'CANCELLED') return CANCELLED;
    throw error;
  }
}

/** The changes of files that the agent shows with its question. */
function diffOf({ toolCall }: RequestPermissionRequest): string[] {
  return (toolCall.content ?? []).flatMap((part) =>
    part.type === 'diff' ? [` ${part.path}`, ...lineDiff(part.oldText ?? '', part.newText)] : [],
  );
}

function requireTurn(turn: Turn | undefined, session: string): Turn {
  if (turn) return turn;
  throw new EclipticError('PROVIDER_POLICY_DENIED', 'no prompt is running in that session', { session });
}

function refusal(sdk: AcpSdk, error: unknown): InstanceType<AcpSdk['RequestError']> {
  const { code, details } = error instanceof EclipticError ? error : { code: undefined, details: {} };
  if (code === 'RESOURCE_NOT_FOUND') return sdk.RequestError.resourceNotFound(String(details.path ?? ''));
  if (code === 'CANCELLED') return sdk.RequestError.requestCancelled();
  return sdk.RequestError.invalidParams({ code: code ?? 'HANDLER_FAILED' }, describeError(error));
}

type Option = RequestPermissionRequest['options'][number];

/** Chooses the option that grants the ruling, and never more. */
function answerPermission(ruling: ActionRuling, options: readonly Option[]): RequestPermissionResponse {
  // An agent's "always" allows more than what was asked, such as all edits; what is always allowed here is answered here.
  const kinds: readonly Option['kind'][] = ruling.allowed
    ? ['allow_once', ...(ruling.lasting ? (['allow_always'] as const) : [])]
    : ['reject_once', 'reject_always'];
  for (const kind of kinds) {
    const option = options.find((one) => one.kind === kind);
    if (option) return { outcome: { outcome: 'selected', optionId: option.optionId } };
  }
  return CANCELLED;
}

const CANCELLED: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

function permissionAction({ toolCall }: RequestPermissionRequest): { action: string; subject: string } {
  const { kind, title, toolCallId } = toolCall;
  return { action: `permission.${kind ?? 'other'}`, subject: cutText(title ?? toolCallId, 1_024) || toolCallId };
}
