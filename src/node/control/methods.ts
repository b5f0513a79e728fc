import { a2aMethods } from './a2a-methods.js';
import { checkParams, type Method } from './api.js';
import { offerBuiltInTools } from './built-in-tools.js';
import { codingAgentMethods } from './coding-agent-methods.js';
import { collectionMethods } from './collection-methods.js';
import type { ControlContext, Handlers } from './context.js';
import { dashboardSource } from './dashboard-source.js';
import { documentMethods } from './document-methods.js';
import { editorMethods } from './editor-methods.js';
import { mcpMethods } from './mcp-methods.js';
import { messageMethods } from './message-methods.js';
import { networkMethods } from './network-methods.js';
import { objectMethods } from './object-methods.js';
import { operationMethods } from './operation-methods.js';
import { policyMethods } from './policy-methods.js';
import { radarMethods } from './radar-methods.js';
import { recordMethods } from './record-methods.js';
import type { ControlMethod } from './server.js';
import { statusMethods } from './status-methods.js';
import { storeMethods } from './store-methods.js';
import { storyMethods } from './story-methods.js';
import { swarmMethods } from './swarm-methods.js';
import { waitingMethods } from './waiting-methods.js';
import { workMethods } from './work-methods.js';

/** The operations of the owner, for the control socket. */
export function controlMethods(context: ControlContext): Readonly<Record<string, ControlMethod>> {
  const others = {
    ...messageMethods(context),
    ...recordMethods(context),
    ...policyMethods(context),
    ...storeMethods(context),
    ...workMethods(context),
    ...a2aMethods(context),
    ...swarmMethods(context),
    ...documentMethods(context),
    ...collectionMethods(context),
    ...objectMethods(context),
    ...mcpMethods(context),
    ...operationMethods(context),
    ...codingAgentMethods(context),
    ...editorMethods(context),
    ...radarMethods(context),
    ...networkMethods(context),
    down: context.shutDown,
  };
  const waiting = waitingMethods(context, others);
  const handlers = {
    ...others,
    ...waiting,
    ...storyMethods(context, others),
    ...statusMethods(context, { ...others, ...waiting }),
  } satisfies Handlers;
  offerBuiltInTools(context, handlers);
  context.notifier.start(async () => (await handlers.waiting({})).items);
  context.dashboard.begin(dashboardSource(context, handlers));
  const methods = checked(handlers);
  const { devices, radarReports: reports } = context;
  devices?.begin({
    ...methods,
    ...(reports && { 'radar.report': (report, { device }) => void reports.take(device!.node, report) }),
  });
  return methods;
}

/** Each handler behind the check of its parameters against the API. */
export function checked(handlers: Partial<Handlers>): Record<string, ControlMethod> {
  return Object.fromEntries(
    Object.entries(handlers).map(([method, handler]): [string, ControlMethod] => {
      const run = handler as ControlMethod;
      return [method, (params, context) => run(checkParams(method as Method, params), context)];
    }),
  );
}
