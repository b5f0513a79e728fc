const message = {
  messageId: 'm1',
  contextId: 'c1',
  taskId: 't1',
  role: 'ROLE_USER',
  parts: [
    { text: 'hi', metadata: { a: 1 } },
    { data: { a: [1, null] }, mediaType: 'application/json' },
    { raw: 'aGk=', filename: 'a.txt' },
    { url: 'https://example.com/a' },
  ],
  metadata: { m: true },
  extensions: ['https://example.com/e'],
  referenceTaskIds: ['t0'],
};
const push = {
  id: 'p1',
  taskId: 't1',
  url: 'https://example.com/push',
  token: 'x',
  authentication: { scheme: 'Bearer', credentials: 'y' },
};
const old = {
  kind: 'message',
  messageId: 'm1',
  role: 'user',
  parts: [
    { kind: 'text', text: 'hi' },
    { kind: 'file', file: { bytes: 'aGk=', name: 'a', mimeType: 'text/plain' } },
    { kind: 'data', data: { a: 1 } },
  ],
};

/** Parameters of each operation of 1.0. */
export const PARAMS: readonly (readonly [method: string, params: object])[] = [
  [
    'SendMessage',
    {
      message,
      configuration: {
        acceptedOutputModes: ['text/plain'],
        historyLength: 3,
        returnImmediately: true,
        taskPushNotificationConfig: push,
      },
      metadata: { a: 1 },
    },
  ],
  ['SendStreamingMessage', { tenant: 'x', message: { ...message, parts: [{ text: '' }] } }],
  ['GetTask', { id: 't1', historyLength: 0 }],
  [
    'ListTasks',
    {
      contextId: 'c',
      status: 'TASK_STATE_WORKING',
      pageSize: 3,
      pageToken: 'x',
      statusTimestampAfter: '2026-01-01T00:00:00.000Z',
      includeArtifacts: true,
    },
  ],
  ['CancelTask', { id: 't1', metadata: { why: 'x' } }],
  ['SubscribeToTask', { id: 't1' }],
  ['CreateTaskPushNotificationConfig', push],
  ['GetTaskPushNotificationConfig', { taskId: 't1', id: 'p1' }],
  ['ListTaskPushNotificationConfigs', { taskId: 't1', pageSize: 1, pageToken: 'x' }],
  ['DeleteTaskPushNotificationConfig', { taskId: 't1', id: 'p1' }],
  ['GetExtendedAgentCard', {}],
];

const OLD: readonly (readonly [method: string, params: object])[] = [
  ['message/send', { message: old, configuration: { blocking: true, pushNotificationConfig: push }, metadata: {} }],
  ['message/stream', { message: { ...old, role: 'agent' } }],
  ['tasks/get', { id: 't1', historyLength: 1 }],
  ['tasks/pushNotificationConfig/set', { taskId: 't1', pushNotificationConfig: push }],
  ['tasks/pushNotificationConfig/list', { id: 't1' }],
];

export const JSON_RPC_REQUESTS: readonly object[] = [...PARAMS, ...OLD].map(([method, params], id) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
}));

const status = {
  state: 'TASK_STATE_COMPLETED',
  message: { ...message, role: 'ROLE_AGENT' },
  timestamp: '2026-01-01T00:00:00.000Z',
};
const artifact = { artifactId: 'a1', name: 'x', parts: [{ text: 'done' }], metadata: { a: 1 }, extensions: ['e'] };

/** What an agent elsewhere may answer. */
export const RESPONSES: readonly object[] = [
  { id: 't1', contextId: 'c1', status, artifacts: [artifact], history: [message], metadata: {} },
  { task: { id: 't1', contextId: 'c1', status } },
  { statusUpdate: { taskId: 't1', contextId: 'c1', status, metadata: {} } },
  { artifactUpdate: { taskId: 't1', contextId: 'c1', artifact, append: true, lastChunk: false } },
  { message: { ...message, role: 'ROLE_AGENT' } },
  {
    kind: 'task',
    id: 't1',
    contextId: 'c',
    status: { state: 'completed', message: { ...old, role: 'agent' } },
    artifacts: [{ artifactId: 'a', parts: old.parts }],
  },
  { kind: 'status-update', taskId: 't', contextId: 'c', status: { state: 'working' }, final: true },
  { kind: 'artifact-update', taskId: 't', contextId: 'c', artifact: { artifactId: 'a', parts: old.parts } },
  {
    name: 'Agent',
    description: 'x',
    version: '1',
    supportedInterfaces: [{ url: 'https://example.com/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: { streaming: true, extensions: [{ uri: 'e', params: { a: 1 } }] },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 's', name: 'S', description: 'd', tags: ['t'], examples: ['e'] }],
    securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    signatures: [{ protected: 'e30', signature: 'x' }],
    provider: { organization: 'o', url: 'https://example.com' },
  },
  {
    protocolVersion: '0.3.0',
    name: 'Old',
    description: 'x',
    version: '1',
    url: 'https://example.com',
    preferredTransport: 'JSONRPC',
    additionalInterfaces: [{ url: 'https://example.com/r', transport: 'HTTP+JSON' }],
    capabilities: {},
    defaultInputModes: ['text'],
    defaultOutputModes: ['text'],
    skills: [{ id: 's', name: 'S', description: 'd', tags: [] }],
    securitySchemes: { k: { type: 'apiKey', in: 'header', name: 'x' } },
    security: [{ k: [] }],
  },
  { jsonrpc: '2.0', id: 1, result: { task: { id: 't' } } },
  {
    jsonrpc: '2.0',
    id: 1,
    error: {
      code: -32001,
      message: 'x',
      data: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'TASK_NOT_FOUND' }],
    },
  },
];
