import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import type { ProtocolVersion } from './version.js';

/** The operations of the protocol, by the names that JSON-RPC and gRPC have for them in 1.0. */
export const METHODS = [
  'SendMessage',
  'SendStreamingMessage',
  'GetTask',
  'ListTasks',
  'CancelTask',
  'SubscribeToTask',
  'CreateTaskPushNotificationConfig',
  'GetTaskPushNotificationConfig',
  'ListTaskPushNotificationConfigs',
  'DeleteTaskPushNotificationConfig',
  'GetExtendedAgentCard',
] as const;

export type Method = (typeof METHODS)[number];

/** 0.3's JSON-RPC names; listing tasks had none. */
const V03_METHODS: Readonly<Record<string, Exclude<Method, 'ListTasks'>>> = {
  'message/send': 'SendMessage',
  'message/stream': 'SendStreamingMessage',
  'tasks/get': 'GetTask',
  'tasks/cancel': 'CancelTask',
  'tasks/resubscribe': 'SubscribeToTask',
  'tasks/pushNotificationConfig/set': 'CreateTaskPushNotificationConfig',
  'tasks/pushNotificationConfig/get': 'GetTaskPushNotificationConfig',
  'tasks/pushNotificationConfig/list': 'ListTaskPushNotificationConfigs',
  'tasks/pushNotificationConfig/delete': 'DeleteTaskPushNotificationConfig',
  'agent/getAuthenticatedExtendedCard': 'GetExtendedAgentCard',
};

const v1: ReadonlySet<string> = new Set(METHODS);
const toV03: ReadonlyMap<Method, string> = new Map(Object.entries(V03_METHODS).map(([old, method]) => [method, old]));

/** The operation that a request in that version names. */
export function methodOf(name: string, version: ProtocolVersion): Method {
  if (version === '1.0' && v1.has(name)) return name as Method;
  if (version === '0.3' && Object.hasOwn(V03_METHODS, name)) return V03_METHODS[name]!;
  const shown = cutText(name, 64);
  // A client that sends no version speaks 0.3 by the protocol's rules, whatever it meant.
  const hint = v1.has(name) ? '; send the header A2A-Version: 1.0' : '';
  throw new EclipticError('METHOD_NOT_FOUND', `A2A ${version} has no method "${shown}"${hint}`, {
    method: shown,
    version,
  });
}

/** What an operation is called in that version; undefined where it has none. */
export function methodName(method: Method, version: ProtocolVersion): string | undefined {
  return version === '1.0' ? method : toV03.get(method);
}

export function isStreaming(method: Method): boolean {
  return method === 'SendStreamingMessage' || method === 'SubscribeToTask';
}
