import { toHttpError } from '../../../src/a2a/protocol/errors.js';
import { parseExtensions } from '../../../src/a2a/protocol/headers.js';
import type { Method } from '../../../src/a2a/protocol/json-rpc.js';
import { paramsOfQuery } from '../../../src/a2a/protocol/reading.js';
import { readTaskSend } from '../../../src/a2a/protocol/simple.js';
import { operationAt } from '../../../src/a2a/server/http-binding.js';
import { v03Rest } from '../../../src/a2a/v03/rest.js';
import { readParams } from '../a2a-readers.js';
import { PARAMS } from '../a2a-requests.js';
import { type FuzzTarget, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const BODIES: readonly unknown[] = [
  ...PARAMS.map(([, params]) => params),
  { request: { content: [{ text: 'x' }], role: 'ROLE_USER', messageId: 'm' } },
  { message: { content: [{ text: 'x' }, { file: { fileWithBytes: 'aGk=' } }], role: 'ROLE_USER', messageId: 'm' } },
  { skill: 'a.b', message: 'Fix it', input: { a: 1 } },
];

/** A request of the HTTP binding: verb and path on the first line, body behind it. */
export const target: FuzzTarget = {
  name: 'a2a-http',
  about: 'A2A 1.0 and 0.3 over HTTP and JSON, and the simple routes',
  seeds: [
    'POST /message:send?a=b\n\0',
    'GET /tasks/t1?historyLength=3\n',
    'GET /tasks?pageSize=x&status=TASK_STATE_WORKING&includeArtifacts=true\n',
    'POST /tenant/v1/tasks/t1:cancel\n\x04',
    'POST /tasks/a%2Fb/pushNotificationConfigs\n\x06',
    'DELETE /tasks/t1/pushNotificationConfigs/p1\n',
    'GET /v1/card\n',
  ],
  words: [
    '/tasks',
    ':cancel',
    ':subscribe',
    'pushNotificationConfigs',
    '/v1',
    '%',
    '%2e',
    '__proto__=1',
    'GET ',
    'POST ',
  ],
  run(input) {
    const end = input.indexOf(0x0a);
    const line = input.subarray(0, end < 0 ? input.length : end).toString('utf8');
    const [verb = '', target = ''] = line.split(' ');
    const [path = '', query] = target.split('?', 2);
    const body = jsonOf(end < 0 ? Buffer.alloc(0) : input.subarray(end + 1), BODIES);
    parseExtensions(line);
    unlessRefused(() => readTaskSend(body));
    try {
      const { method, params: named } = operationAt(verb, path);
      const sent = typeof body === 'object' && body !== null ? body : {};
      const said = { ...paramsOfQuery(new URLSearchParams(query)), ...sent };
      unlessRefused(() => readParams(method as Method, { ...said, ...named }));
      readParams(method as Method, { ...v03Rest.fromParams(method as Method, said), ...named });
    } catch (error) {
      JSON.stringify(toHttpError(error));
      throw error;
    }
  },
};
