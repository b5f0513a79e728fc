import type * as Grpc from '@grpc/grpc-js';
import type { Metadata, MethodDefinition, ServiceDefinition, StatusObject } from '@grpc/grpc-js';
import type * as ProtoLoader from '@grpc/proto-loader';
import type { MessageTypeDefinition, PackageDefinition } from '@grpc/proto-loader';
import { EclipticError } from '../../runtime/errors.js';
import { PROTO_FOLDER } from '../../runtime/package.js';
import { type ErrorDetail, toGrpcError } from '../protocol/errors.js';
import { METHODS } from '../protocol/json-rpc.js';
import { type Fields, refuse, writeTimestamp } from '../protocol/reading.js';

export interface GrpcPackages {
  readonly grpc: typeof Grpc;
  readonly loader: typeof ProtoLoader;
}

/** The optional packages for gRPC. `load` is replaced in tests. */
export async function loadGrpc(load = (name: string): Promise<unknown> => import(name)): Promise<GrpcPackages> {
  try {
    const [grpc, loader] = await Promise.all([load('@grpc/grpc-js'), load('@grpc/proto-loader')]);
    return { grpc: grpc as typeof Grpc, loader: loader as typeof ProtoLoader };
  } catch (error) {
    const message = 'gRPC needs two packages more: npm install @grpc/grpc-js @grpc/proto-loader';
    throw new EclipticError('PACKAGE_REQUIRED', message, { packages: ['@grpc/grpc-js', '@grpc/proto-loader'] }, error);
  }
}

/**
 * Converts between the JSON of 1.0 and the objects of a protobuf library. They differ in `Value` (any JSON), `Struct`
 * (an object) and times.
 */

const STRUCTS: ReadonlySet<string> = new Set(['metadata', 'params', 'header']);
const TIMES: ReadonlySet<string> = new Set(['timestamp', 'statusTimestampAfter']);
/** Maps, whose keys are data. */
const MAPS: ReadonlySet<string> = new Set(['securitySchemes', 'schemes', 'scopes']);

interface Direction {
  value(from: unknown): unknown;
  struct(from: unknown): unknown;
  time(from: unknown): unknown;
}

const TO_PROTO: Direction = { value: toValue, struct: toStruct, time: toTime };
const FROM_PROTO: Direction = { value: fromValue, struct: fromStruct, time: fromTime };

export function toProto(json: unknown): unknown {
  return walk(json, TO_PROTO);
}

export function fromProto(message: unknown): unknown {
  return walk(message, FROM_PROTO);
}

function walk(value: unknown, direction: Direction): unknown {
  if (Array.isArray(value)) return value.map((entry) => walk(entry, direction));
  if (!isFields(value)) return value;
  return mapped(value, (member, name) => {
    if (member === undefined) return undefined;
    // `null` is data too.
    if (name === 'data') return direction.value(member);
    if (member === null) return undefined;
    if (STRUCTS.has(name)) return direction.struct(member);
    if (TIMES.has(name)) return direction.time(member);
    if (MAPS.has(name) && isFields(member)) return mapped(member, (entry) => walk(entry, direction));
    return walk(member, direction);
  });
}

function toValue(json: unknown): Fields {
  switch (typeof json) {
    case 'string':
      return { stringValue: json };
    case 'number':
      return { numberValue: json };
    case 'boolean':
      return { boolValue: json };
    default:
      if (Array.isArray(json)) return { listValue: { values: json.map(toValue) } };
      return isFields(json) ? { structValue: toStruct(json) } : { nullValue: 'NULL_VALUE' };
  }
}

function fromValue(value: unknown): unknown {
  const { stringValue, numberValue, boolValue, listValue, structValue } = (value ?? {}) as Fields;
  if (stringValue !== undefined) return stringValue;
  if (numberValue !== undefined) return numberValue;
  if (boolValue !== undefined) return boolValue;
  if (structValue !== undefined) return fromStruct(structValue);
  if (listValue === undefined) return null;
  const { values } = (listValue ?? {}) as Fields;
  return Array.isArray(values) ? values.map(fromValue) : [];
}

function toStruct(json: unknown): Fields {
  return { fields: isFields(json) ? mapped(json, toValue) : {} };
}

function fromStruct(struct: unknown): Fields {
  const { fields } = (struct ?? {}) as Fields;
  return isFields(fields) ? mapped(fields, fromValue) : {};
}

function toTime(text: unknown): Fields {
  const ms = Date.parse(String(text));
  return { seconds: Math.floor(ms / 1_000), nanos: (((ms % 1_000) + 1_000) % 1_000) * 1_000_000 };
}

function fromTime(time: unknown): string {
  const { seconds = 0, nanos = 0 } = (time ?? {}) as Fields;
  const ms = Number(seconds) * 1_000 + Math.floor(Number(nanos) / 1_000_000);
  // The range of JavaScript dates.
  if (!(Math.abs(ms) <= 8.64e15)) refuse('timestamp', 'must be a time');
  return writeTimestamp(ms);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

function mapped(from: Fields, map: (value: unknown, key: string) => unknown): Fields {
  const entries = Object.entries(from).map(([key, value]): [string, unknown] => [key, map(value, key)]);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

/** `Any`, with its wire names. */
interface Packed {
  readonly type_url?: string;
  readonly value?: string;
}

type A2AMethod = MethodDefinition<object, object>;
type Codec = MessageTypeDefinition<object, object>;

/** camelCase names, enums by name and bytes in base64: nearly the JSON of 1.0. */
const AS_JSON = { keepCase: false, enums: String, bytes: String, longs: Number };

/** The service of the protocol with results in JSON, and its errors. */
export class A2AServiceDefinition {
  readonly service: ServiceDefinition;
  /** With messages as the protobuf library has them. */
  readonly clientService: ServiceDefinition;
  readonly #grpc: GrpcPackages['grpc'];
  readonly #status: PackageDefinition;

  constructor({ grpc, loader }: GrpcPackages) {
    const options = { ...AS_JSON, includeDirs: [PROTO_FOLDER] };
    const loaded = loader.loadSync('a2a.proto', options)['lf.a2a.v1.A2AService'] as Record<string, A2AMethod>;
    this.#grpc = grpc;
    this.#status = loader.loadSync('status.proto', options);
    this.clientService = Object.fromEntries(METHODS.map((method) => [method, loaded[method]!]));
    this.service = Object.fromEntries(METHODS.map((method) => [method, withJsonResult(loaded[method]!)]));
  }

  metadata(entries: Readonly<Record<string, string>>): Metadata {
    const metadata = new this.#grpc.Metadata();
    for (const [name, value] of Object.entries(entries)) metadata.set(name, value);
    return metadata;
  }

  /** With details in `grpc-status-details-bin`, where clients look for them. */
  errorOf(error: unknown): StatusObject {
    const { code, message, details } = toGrpcError(error);
    const metadata = new this.#grpc.Metadata();
    const status = { code, message, details: details.map((detail) => this.#packed(detail)) };
    metadata.set('grpc-status-details-bin', this.#codec('google.rpc.Status').serialize(status));
    return { code, details: message, metadata };
  }

  /** What an error of a server says in `grpc-status-details-bin`, in the form of the HTTP binding. */
  detailsOf(metadata: Metadata): readonly object[] {
    const [packed] = metadata.get('grpc-status-details-bin');
    if (!Buffer.isBuffer(packed)) return [];
    try {
      const { details = [] } = this.#codec('google.rpc.Status').deserialize(packed) as { details?: Packed[] };
      return details.flatMap((detail) => this.#unpacked(detail));
    } catch {
      return [];
    }
  }

  #unpacked({ type_url: typeUrl = '', value = '' }: Packed): object[] {
    const codec = this.#status[typeUrl.slice(typeUrl.indexOf('/') + 1)] as Codec | undefined;
    if (!codec?.deserialize) return [];
    return [{ '@type': typeUrl, ...codec.deserialize(Buffer.from(value, 'base64')) }];
  }

  #packed({ '@type': typeUrl, ...detail }: ErrorDetail): object {
    // The library defines this message with its wire names.
    return { type_url: typeUrl, value: this.#codec(typeUrl.slice(typeUrl.indexOf('/') + 1)).serialize(detail) };
  }

  #codec(name: string): Codec {
    return this.#status[name] as Codec;
  }
}

function withJsonResult(method: A2AMethod): A2AMethod {
  return { ...method, responseSerialize: (result) => method.responseSerialize(toProto(result) as object) };
}
