import { A2AServiceDefinition, fromProto, loadGrpc, toProto } from '../../../src/a2a/client/grpc-service.js';
import type { Method } from '../../../src/a2a/protocol/json-rpc.js';
import { METHODS } from '../../../src/a2a/protocol/json-rpc.js';
import { readParams } from '../a2a-readers.js';
import { PARAMS, RESPONSES } from '../a2a-requests.js';
import { type FuzzTarget, mustEqual, unlessRefused } from '../fuzz-target.js';

let definition: A2AServiceDefinition;

/** Requests as protobuf. One that is taken survives another trip through protobuf. */
export const target: FuzzTarget = {
  name: 'a2a-grpc',
  about: 'A2A 1.0 over gRPC',
  seeds: PARAMS.map((_, index) => Buffer.of(index)),
  async prepare() {
    definition = new A2AServiceDefinition(await loadGrpc());
    return PARAMS.map(([name, params], index) => {
      const { requestSerialize } = definition.service[name as Method]!;
      return Buffer.concat([Buffer.of(index), requestSerialize(toProto(params) as object)]);
    });
  },
  run(input) {
    const method = METHODS[(input[0] ?? 0) % METHODS.length]!;
    const { requestSerialize, requestDeserialize, responseSerialize } = definition.service[method]!;
    let message: object;
    try {
      message = requestDeserialize(input.subarray(1));
    } catch {
      // The library answers INTERNAL to bytes that its generated code cannot read.
      return;
    }
    const request = fromProto(message);
    unlessRefused(() => responseSerialize(RESPONSES[1] as object));
    const params = readParams(method, request);
    const again = fromProto(requestDeserialize(requestSerialize(toProto(params) as object)));
    mustEqual(readParams(method, again), params, `${method} sent once more`);
  },
};
