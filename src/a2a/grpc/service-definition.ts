import type { Metadata, MethodDefinition, ServiceDefinition, StatusObject } from '@grpc/grpc-js';
import type { MessageTypeDefinition, PackageDefinition } from '@grpc/proto-loader';
import { PROTO_FOLDER } from '../../runtime/package.js';
import { type ErrorDetail, toGrpcError } from '../protocol/errors.js';
import { METHODS } from '../protocol/methods.js';
import { toProto } from '../protocol/proto-values.js';
import type { GrpcPackages } from './grpc-packages.js';

type A2AMethod = MethodDefinition<object, object>;
type Codec = MessageTypeDefinition<object, object>;

/** With camelCase names, enums by name and bytes in base64: nearly the JSON of 1.0. */
const AS_JSON = { keepCase: false, enums: String, bytes: String, longs: Number };

/** The service of the protocol, whose results are as they are in JSON, and how its errors are told. */
export class A2AServiceDefinition {
  readonly service: ServiceDefinition;
  readonly #grpc: GrpcPackages['grpc'];
  readonly #status: PackageDefinition;

  constructor({ grpc, loader }: GrpcPackages) {
    const options = { ...AS_JSON, includeDirs: [PROTO_FOLDER] };
    const loaded = loader.loadSync('a2a.proto', options)['lf.a2a.v1.A2AService'] as Record<string, A2AMethod>;
    this.#grpc = grpc;
    this.#status = loader.loadSync('status.proto', options);
    this.service = Object.fromEntries(METHODS.map((method) => [method, withJsonResult(loaded[method]!)]));
  }

  metadata(entries: Readonly<Record<string, string>>): Metadata {
    const metadata = new this.#grpc.Metadata();
    for (const [name, value] of Object.entries(entries)) metadata.set(name, value);
    return metadata;
  }

  /** An error as gRPC has it, with its details where clients look for them. */
  errorOf(error: unknown): StatusObject {
    const { code, message, details } = toGrpcError(error);
    const metadata = new this.#grpc.Metadata();
    const status = { code, message, details: details.map((detail) => this.#packed(detail)) };
    metadata.set('grpc-status-details-bin', this.#codec('google.rpc.Status').serialize(status));
    return { code, details: message, metadata };
  }

  #packed({ '@type': typeUrl, ...detail }: ErrorDetail): object {
    // The library's own definition of this one has names as they are on the wire.
    return { type_url: typeUrl, value: this.#codec(typeUrl.slice(typeUrl.indexOf('/') + 1)).serialize(detail) };
  }

  #codec(name: string): Codec {
    return this.#status[name] as Codec;
  }
}

function withJsonResult(method: A2AMethod): A2AMethod {
  return { ...method, responseSerialize: (result) => method.responseSerialize(toProto(result) as object) };
}
