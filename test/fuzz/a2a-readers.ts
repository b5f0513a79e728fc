import type { Method } from '../../src/a2a/protocol/json-rpc.js';
import * as read from '../../src/a2a/protocol/read-requests.js';
import { mustEqual } from './fuzz-target.js';

const READERS: Readonly<Record<Method, (params: unknown) => unknown>> = {
  SendMessage: read.readSendMessageRequest,
  SendStreamingMessage: read.readSendMessageRequest,
  GetTask: read.readGetTaskRequest,
  ListTasks: read.readListTasksRequest,
  CancelTask: read.readCancelTaskRequest,
  SubscribeToTask: read.readSubscribeToTaskRequest,
  CreateTaskPushNotificationConfig: read.readCreatePushConfigRequest,
  GetTaskPushNotificationConfig: read.readPushConfigRequest,
  ListTaskPushNotificationConfigs: read.readListPushConfigsRequest,
  DeleteTaskPushNotificationConfig: read.readPushConfigRequest,
  GetExtendedAgentCard: read.readGetExtendedAgentCardRequest,
};

/** Reads the parameters of an operation. What was read once reads the same again. */
export function readParams(method: Method, params: unknown): unknown {
  const first = READERS[method](params);
  mustEqual(READERS[method](JSON.parse(JSON.stringify(first))), first, `the parameters of ${method}, read twice`);
  return first;
}
