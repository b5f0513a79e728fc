import {
  idOf,
  jsonRpcError,
  type Method,
  methodOf,
  parseJson,
  readJsonRpcRequest,
} from '../../../src/a2a/protocol/json-rpc.js';
import { v03JsonRpc } from '../../../src/a2a/v03/json-rpc.js';
import { readParams } from '../a2a-readers.js';
import { JSON_RPC_REQUESTS } from '../a2a-requests.js';
import type { FuzzTarget } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

/** What the readers of requests take, they take again, and it means the same. */
export const target: FuzzTarget = {
  name: 'a2a-json-rpc',
  about: 'A2A 1.0 and 0.3 over JSON-RPC',
  seeds: [
    ...JSON_RPC_REQUESTS.map((_, index) => Buffer.of(index)),
    ...JSON_RPC_REQUESTS.map((one) => JSON.stringify(one)),
  ],
  run(input) {
    const raw = input[0] === 0x7b || input[0] === 0x5b;
    const value = raw ? parseJson(input.toString('utf8')) : jsonOf(input, JSON_RPC_REQUESTS);
    idOf(value);
    try {
      const { method: name, params } = readJsonRpcRequest(value);
      for (const version of ['1.0', '0.3'] as const) {
        let method: Method;
        try {
          method = methodOf(name, version);
        } catch {
          continue;
        }
        readParams(method, version === '1.0' ? params : v03JsonRpc.fromParams(method, params));
      }
    } catch (error) {
      JSON.stringify(jsonRpcError(idOf(value), error));
      throw error;
    }
  },
};
