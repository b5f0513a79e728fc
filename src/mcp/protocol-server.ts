import type {
  CallToolResult,
  CompleteResult,
  GetPromptResult,
  JSONRPCRequest,
  LoggingLevel,
  Prompt,
  ReadResourceResult,
  Resource,
  ResourceTemplateType,
  Result,
  Server,
  ServerContext,
  Tool,
} from '@modelcontextprotocol/server';
import type { Party } from '../mesh/policy.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import { type CallOptions, isWanted } from './call.js';
import type { DefinitionOf, Entry } from './catalogue.js';
import type { Kind, ToolDefinition } from './definitions.js';
import { callFailure, errorCode, failureData, protocolCode } from './failure.js';
import { contradiction, HEADER_MISMATCH, mismatchMessage } from './param-headers.js';
import { withWordsSeen } from './result-text.js';
import type { McpService } from './service.js';
import { TASK_CAPABILITIES, TaskProtocol, type TaskProtocolInit } from './task-protocol.js';
import type { NameStyle } from './wire-names.js';

export type Sdk = typeof import('@modelcontextprotocol/server');

const CAPABILITIES = {
  tools: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  prompts: { listChanged: true },
  completions: {},
  logging: {},
};

const LOG_LEVEL_KEY = 'io.modelcontextprotocol/logLevel';
const CAPABILITIES_KEY = 'io.modelcontextprotocol/clientCapabilities';

/** Resources that one session may subscribe to. */
const MAX_SUBSCRIBED = 1_000;

let loading: Promise<Sdk> | undefined;

/** The SDK loads slowly and is needed only when a client speaks MCP with this node. */
export function loadSdk(): Promise<Sdk> {
  loading ??= import('@modelcontextprotocol/server');
  return loading;
}

export interface ProtocolServerInit extends TaskProtocolInit {
  service: McpService;
  /** Everything is listed and called as this principal. */
  principal: Party;
  style: NameStyle;
  name: string;
  version: string;
  instructions?: string | undefined;
  /** Notifies a lasting connection of changes: of subscribed resources in the 2025 era, of all in 2026. */
  tell?: 'legacy' | 'modern' | undefined;
}

/** An MCP server for one principal: the SDK's protocol over the catalogue. */
export function createProtocolServer(sdk: Sdk, init: ProtocolServerInit): Server {
  const { service, principal, style, name, version, instructions } = init;
  const capabilities = { ...CAPABILITIES, ...TASK_CAPABILITIES[init.tell === 'legacy' ? 'legacy' : 'modern'] };
  const server = new (withTasks(sdk))({ name, version }, { capabilities, ...(instructions && { instructions }) });
  const subscribed = new Set<string>();
  let sessionLevel: LoggingLevel | undefined;
  const options = (ctx: ServerContext) => callOptions(server, ctx, principal, sessionLevel);

  /** Turns every error into a protocol error. */
  const guarded = async <T>(act: () => T | Promise<T>): Promise<T> => {
    try {
      return await act();
    } catch (error) {
      if (error instanceof sdk.ProtocolError) throw error;
      const failure = toEclipticError(error, 'HANDLER_FAILED');
      throw new sdk.ProtocolError(errorCode(failure), failure.message, failureData(failure));
    }
  };

  const list =
    <K extends Kind, N extends string, T>(kind: K, name: N, shown: (entry: Entry<DefinitionOf<K>>) => T) =>
    ({ params }: { params?: { cursor?: string | undefined } | undefined }) =>
      guarded(() => pageOf(service.list(kind, principal).map(shown), name, params?.cursor));
  const named = (entry: Entry<DefinitionOf<'tool' | 'prompt'>>) => ({
    ...plain(entry),
    name: service.names.nameOf(entry, style),
  });

  server.setRequestHandler(
    'tools/list',
    list('tool', 'tools', (entry) => named(entry) as Tool),
  );
  server.setRequestHandler(
    'prompts/list',
    list('prompt', 'prompts', (entry) => named(entry) as Prompt),
  );
  server.setRequestHandler(
    'resources/list',
    list('resource', 'resources', (entry) => ({ ...plain(entry), uri: service.uriOf(entry) }) as Resource),
  );
  server.setRequestHandler(
    'resources/templates/list',
    list('template', 'resourceTemplates', (entry) => plain(entry) as ResourceTemplateType),
  );
  const found = (params: { name: string; arguments?: Record<string, unknown> | undefined }, ctx: ServerContext) => {
    const entry = service.find('tool', params.name, principal, style);
    const request = ctx.mcpReq.envelope && ctx.http?.req;
    const { arguments: args = {} } = params;
    const contrary =
      request && contradiction(entry.definition as ToolDefinition, args, (header) => request.headers.get(header));
    if (contrary) throw new sdk.ProtocolError(HEADER_MISMATCH, mismatchMessage(contrary), { mismatch: contrary });
    return entry;
  };
  const taskProtocol = new TaskProtocol(sdk, server, init, guarded);
  server.beginTask = (request, ctx) =>
    guarded(async () => {
      const params = request.params as { name?: unknown; arguments?: Record<string, unknown> } | undefined;
      // A call that is wrong otherwise is refused by the handler below.
      if (typeof params?.name !== 'string') return undefined;
      const entry = found({ ...params, name: params.name }, ctx);
      return taskProtocol.begin(entry, request, ctx, options(ctx));
    });
  server.setRequestHandler('tools/call', ({ params }, ctx) =>
    guarded(async () => {
      const { arguments: args = {} } = params;
      const entry = found(params, ctx);
      try {
        const ask = { kind: 'tool', name: entry.key, arguments: args } as const;
        const result = (await service.call(entry, ask, options(ctx))) as CallToolResult;
        return withWordsSeen(result, entry.definition as ToolDefinition);
      } catch (error) {
        const failure = toEclipticError(error, 'HANDLER_FAILED');
        if (protocolCode(failure) !== undefined) throw failure;
        return callFailure(failure) as CallToolResult;
      }
    }),
  );
  server.setRequestHandler('resources/read', ({ params }, ctx) =>
    guarded(async () => (await service.readResource(params.uri, options(ctx))) as ReadResourceResult),
  );
  server.setRequestHandler('prompts/get', ({ params }, ctx) =>
    guarded(
      async () =>
        (await service.getPrompt(params.name, params.arguments ?? {}, options(ctx), style)) as GetPromptResult,
    ),
  );
  server.setRequestHandler('completion/complete', ({ params }, ctx) =>
    guarded((): Promise<CompleteResult> => {
      const { ref, argument, context } = params;
      const of =
        ref.type === 'ref/prompt'
          ? ({ kind: 'prompt', name: ref.name } as const)
          : ({ kind: 'template', uriTemplate: ref.uri } as const);
      return service.complete(of, { ...argument, given: context?.arguments }, options(ctx), style);
    }),
  );
  server.setRequestHandler('resources/subscribe', ({ params }) =>
    guarded(() => {
      if (subscribed.size >= MAX_SUBSCRIBED) {
        throw new EclipticError('QUEUE_FULL', `a session follows at most ${MAX_SUBSCRIBED} resources`);
      }
      subscribed.add(params.uri);
      return {};
    }),
  );
  server.setRequestHandler('resources/unsubscribe', ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
  server.setRequestHandler('logging/setLevel', ({ params }) => {
    sessionLevel = params.level;
    return {};
  });
  const stopTasks = taskProtocol.serve();
  if (init.tell) {
    const stopChanges = tellOfChanges(server, init, subscribed);
    server.onclose = () => {
      stopChanges();
      stopTasks();
    };
  }
  return server;
}

type BeginTask = (request: JSONRPCRequest, ctx: ServerContext) => Promise<Result | undefined>;

/** The SDK takes no task for the result of a tool, so that a call can become one before its handler runs. */
function makeServerClass(sdk: Sdk) {
  return class extends sdk.Server {
    beginTask: BeginTask = async () => undefined;

    protected override _wrapHandler(
      method: string,
      handler: (request: JSONRPCRequest, ctx: ServerContext) => Promise<Result>,
    ) {
      const wrapped = super._wrapHandler(method, handler);
      if (method !== 'tools/call') return wrapped;
      return async (request: JSONRPCRequest, ctx: ServerContext) =>
        (await this.beginTask(request, ctx)) ?? wrapped(request, ctx);
    }
  };
}

let serverClass: ReturnType<typeof makeServerClass> | undefined;

function withTasks(sdk: Sdk): ReturnType<typeof makeServerClass> {
  serverClass ??= makeServerClass(sdk);
  return serverClass;
}

/** Notifies a connection of changes that its principal may see. Returns a function that stops it. */
function tellOfChanges(server: Server, init: ProtocolServerInit, subscribed: ReadonlySet<string>): () => void {
  const { service, principal, tell } = init;
  const quietly = (told: Promise<void>) => void told.catch(() => {});
  const stopChanges = service.catalogue.onChange((kind, entries) => {
    if (!service.mayUse(principal, entries[0]!.owner)) return;
    if (kind === 'tool') quietly(server.sendToolListChanged());
    else if (kind === 'prompt') quietly(server.sendPromptListChanged());
    else quietly(server.sendResourceListChanged());
  });
  const stopUpdates = service.onResourceUpdate((owner, uri) => {
    if (!service.mayUse(principal, owner) || (tell === 'legacy' && !subscribed.has(uri))) return;
    quietly(server.sendResourceUpdated({ uri }));
  });
  return () => {
    stopChanges();
    stopUpdates();
  };
}

/** The request's metadata, and callbacks for progress and logs. */
function callOptions(
  server: Server,
  ctx: ServerContext,
  caller: Party,
  sessionLevel: LoggingLevel | undefined,
): CallOptions {
  const { mcpReq } = ctx;
  const envelope = (mcpReq.envelope ?? {}) as Record<string, unknown>;
  const token = mcpReq._meta?.progressToken;
  const { progressToken: _, ...meta } = mcpReq._meta ?? {};
  // A 2026 client that names no level wants no logs; an older client that set none wants all.
  const wanted = mcpReq.envelope ? envelope[LOG_LEVEL_KEY] : (sessionLevel ?? 'debug');
  const state = mcpReq.requestState<string>();
  // A client that has disconnected is not told.
  const notify = (notification: Parameters<typeof mcpReq.notify>[0]) =>
    void mcpReq.notify(notification).catch(() => {});
  return {
    caller,
    signal: mcpReq.signal,
    capabilities: (envelope[CAPABILITIES_KEY] as object | undefined) ?? server.getClientCapabilities() ?? {},
    answers: mcpReq.inputResponses ?? {},
    ...(state !== undefined && { state }),
    meta,
    onProgress: (progress) => {
      if (token === undefined) return;
      notify({ method: 'notifications/progress', params: { ...progress, progressToken: token } });
    },
    onLog: (entry) => {
      if (isWanted(entry.level, wanted)) notify({ method: 'notifications/message', params: { ...entry } });
    },
  };
}

const PAGE_SIZE = 1_000;

/** One page of a list, and the cursor of the next page. */
function pageOf<K extends string, T>(
  items: readonly T[],
  key: K,
  cursor: string | undefined,
): { [P in K]: T[] } & { nextCursor?: string } {
  const start = cursor === undefined ? 0 : Number(Buffer.from(cursor, 'base64url').toString());
  if (!Number.isSafeInteger(start) || start < 0 || (cursor !== undefined && start === 0)) {
    throw new EclipticError('INVALID_ARGUMENTS', 'the cursor was not made here');
  }
  const end = start + PAGE_SIZE;
  const more = end < items.length && { nextCursor: Buffer.from(String(end)).toString('base64url') };
  return { [key]: items.slice(start, end), ...more } as { [P in K]: T[] } & { nextCursor?: string };
}

/** A definition as MCP lists show it, with its owner. */
function plain({ definition, owner, fullName }: Entry): object {
  const { kind: _, _meta, ...rest } = definition;
  // Asking first is for other nodes; MCP has no word for it.
  if ('execution' in rest && rest.execution) rest.execution = { taskSupport: rest.execution.taskSupport };
  const own = definition.kind === 'tool' || definition.kind === 'prompt' ? { 'ecliptic/name': fullName } : {};
  return { ...rest, _meta: { ..._meta, 'ecliptic/agent': owner, ...own } };
}
