import { fileURLToPath } from 'node:url';
import { loadSync } from '@grpc/proto-loader';

interface Field {
  readonly name: string;
  readonly label: string;
  readonly type: string;
  readonly typeName: string;
}

interface Descriptor {
  readonly name: string;
  readonly field: readonly Field[];
  readonly nestedType: readonly (Descriptor & { readonly options: { readonly mapEntry: boolean } | null })[];
  readonly value: readonly { readonly name: string }[];
}

const PACKAGE = 'lf.a2a.v1.';
/** Their JSON is not that of an ordinary message. */
const WELL_KNOWN = new Set(['Struct', 'Value', 'Timestamp']);
const includeDirs = [fileURLToPath(new URL('../../proto', import.meta.url))];
const loaded = loadSync('a2a.proto', { keepCase: false, includeDirs });

/**
 * What a proto3 JSON reader that ignores nothing refuses in the JSON of a message of the protocol: unknown fields,
 * values of the wrong kind, unknown enum names. Empty where it takes all of it.
 */
export function protoJsonFaults(message: string, json: unknown, at = message): string[] {
  const descriptor = (loaded[PACKAGE + message] as unknown as { type: Descriptor }).type;
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return [`${at} is no object`];
  return Object.entries(json).flatMap(([name, value]) => {
    const field = descriptor.field.find((one) => one.name === name);
    if (!field) return [`${at}.${name} is unknown`];
    const entry = descriptor.nestedType.find((one) => one.name === field.typeName && one.options?.mapEntry);
    if (entry) {
      const of = entry.field.find((one) => one.name === 'value')!;
      return Object.entries(value as object).flatMap(([key, one]) => valueFaults(of, one, `${at}.${name}[${key}]`));
    }
    if (field.label !== 'LABEL_REPEATED') return valueFaults(field, value, `${at}.${name}`);
    if (!Array.isArray(value)) return [`${at}.${name} is no list`];
    return value.flatMap((one, index) => valueFaults(field, one, `${at}.${name}[${index}]`));
  });
}

function valueFaults({ type, typeName }: Field, value: unknown, at: string): string[] {
  const bare = typeName.slice(typeName.lastIndexOf('.') + 1);
  switch (type) {
    case 'TYPE_MESSAGE':
      return WELL_KNOWN.has(bare) ? [] : protoJsonFaults(bare, value, at);
    case 'TYPE_ENUM': {
      const { value: members } = (loaded[PACKAGE + bare] as unknown as { type: Descriptor }).type;
      return members.some(({ name }) => name === value) ? [] : [`${at} is no ${bare}`];
    }
    case 'TYPE_BOOL':
      return typeof value === 'boolean' ? [] : [`${at} is no bool`];
    case 'TYPE_INT32':
      return Number.isInteger(value) ? [] : [`${at} is no int32`];
    default:
      return typeof value === 'string' ? [] : [`${at} is no string`];
  }
}
