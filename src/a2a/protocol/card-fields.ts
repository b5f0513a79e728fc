import { canonicalJson } from '../../network/membership/statement.js';
import { A2A_LIMITS } from './limits.js';
import {
  type Fields,
  jsonProblem,
  type Place,
  readAnyText,
  readFlag,
  readList,
  readMetadata,
  readObject,
  readOptionalText,
  readText,
  readTexts,
  refuse,
  within,
} from './reading.js';
import type { AgentCard, SecurityScheme } from './types.js';

/**
 * The fields of an agent card, written once: `readCard` checks a remote card by them, and `canonicalCard` makes the text
 * that is signed. A key is the field's name, then `[]` for a list or `{}` for a map, then its presence:
 * `!` required: in the canonical text even when empty; `?` explicit presence: in it when set, to whatever value;
 * `+` required when a card is read, otherwise as without a mark; `-` no part of the canonical text;
 * without a mark: in the canonical text when the value is not the default.
 */
interface Shape {
  readonly [key: string]: Kind | Shape;
}

/** Texts by their limit; `words` may be empty. */
type Kind = 'name' | 'url' | 'text' | 'words' | 'flag' | 'json';

interface Field {
  readonly name: string;
  readonly many: '' | '[]' | '{}';
  readonly presence: '' | '!' | '?' | '+' | '-';
  readonly of: Kind | readonly Field[];
}

const REQUIREMENT: Shape = { 'schemes{}+': { 'list[]': 'url' } };

const SCHEME: Shape = {
  'apiKeySecurityScheme?': { description: 'text', 'location!': 'name', 'name!': 'name' },
  'httpAuthSecurityScheme?': { description: 'text', 'scheme!': 'name', bearerFormat: 'name' },
  'oauth2SecurityScheme?': {
    description: 'text',
    oauth2MetadataUrl: 'url',
    'flows!': {
      'authorizationCode?': {
        'authorizationUrl!': 'url',
        'tokenUrl!': 'url',
        refreshUrl: 'url',
        'scopes{}!': 'text',
        pkceRequired: 'flag',
      },
      'clientCredentials?': { 'tokenUrl!': 'url', refreshUrl: 'url', 'scopes{}!': 'text' },
      'deviceCode?': { 'deviceAuthorizationUrl!': 'url', 'tokenUrl!': 'url', refreshUrl: 'url', 'scopes{}!': 'text' },
      'implicit?': { authorizationUrl: 'url', refreshUrl: 'url', 'scopes{}': 'text' },
      'password?': { tokenUrl: 'url', refreshUrl: 'url', 'scopes{}': 'text' },
    },
  },
  'openIdConnectSecurityScheme?': { description: 'text', 'openIdConnectUrl!': 'url' },
  'mtlsSecurityScheme?': { description: 'text' },
};

const CARD = compile({
  'name!': 'name',
  'description!': 'words',
  'supportedInterfaces[]!': { 'url!': 'url', 'protocolBinding!': 'name', tenant: 'name', 'protocolVersion!': 'name' },
  'provider?': { 'url!': 'words', 'organization!': 'words' },
  'version!': 'name',
  'documentationUrl?': 'url',
  'capabilities!': {
    'streaming?': 'flag',
    'pushNotifications?': 'flag',
    'extendedAgentCard?': 'flag',
    'extensions[]': { 'uri+': 'url', description: 'text', required: 'flag', 'params?': 'json' },
  },
  'securitySchemes{}': SCHEME,
  'securityRequirements[]': REQUIREMENT,
  'defaultInputModes[]!': 'name',
  'defaultOutputModes[]!': 'name',
  'skills[]!': {
    'id!': 'name',
    'name!': 'name',
    'description!': 'words',
    'tags[]!': 'name',
    'examples[]': 'text',
    'inputModes[]': 'name',
    'outputModes[]': 'name',
    'securityRequirements[]': REQUIREMENT,
  },
  'iconUrl?': 'url',
  'signatures[]-': { 'protected!': 'text', 'signature!': 'text', 'header?': 'json' },
});

function compile(shape: Shape): readonly Field[] {
  return Object.entries(shape).map(([key, of]) => {
    const [, name, many = '', presence] = /^(\w+)(\[\]|\{\})?([!?+-]?)$/.exec(key)!;
    return { name, many, presence, of: typeof of === 'string' ? of : compile(of) } as Field;
  });
}

/** The canonical text of a card (RFC 8785), which is signed. Fields that the protocol does not know are no part of it. */
export function canonicalCard(card: AgentCard): string {
  return canonicalJson(normalize(card, CARD, true));
}

/** The same without required fields that are empty, which the official SDKs leave out of what they sign. */
export function canonicalCardWithoutEmpties(card: AgentCard): string {
  return canonicalJson(normalize(card, CARD, false));
}

function normalize(value: unknown, fields: readonly Field[], empties: boolean): Fields {
  const from = (typeof value === 'object' ? value : undefined) ?? {};
  const kept: Record<string, unknown> = {};
  for (const field of fields) {
    const { name, presence } = field;
    if (presence === '-') continue;
    const member = Object.hasOwn(from, name) ? (from as Fields)[name] : undefined;
    const set = member !== undefined && member !== null;
    const always = presence === '!' && empties;
    if (always || (set && (presence === '?' || !isDefault(member))))
      kept[name] = normalizeField(member, field, empties);
  }
  return kept;
}

function normalizeField(value: unknown, { many, of }: Field, empties: boolean): unknown {
  const one = (entry: unknown) => (typeof of === 'string' ? (entry ?? emptyOf(of)) : normalize(entry, of, empties));
  if (many === '') return one(value);
  if (many === '[]') return Array.isArray(value) ? value.map(one) : [];
  return Object.fromEntries(Object.entries(value ?? {}).map(([key, entry]) => [key, one(entry)]));
}

function emptyOf(kind: Kind): unknown {
  return kind === 'flag' ? false : kind === 'json' ? {} : '';
}

/** Of fields without explicit presence: empty text, `false`, and empty lists and maps. */
function isDefault(value: unknown): boolean {
  return typeof value === 'object' && value !== null ? Object.keys(value).length === 0 : !value;
}

const { nameChars, urlChars, cardTextChars, cardEntries } = A2A_LIMITS;
const CHARS = { name: nameChars, url: urlChars, text: cardTextChars, words: cardTextChars };
const READ = CARD.filter(({ name }) => name !== 'securitySchemes');

/** A card of 1.0 from untrusted JSON. Name and version must be there; other missing fields count as empty. */
export function readCard(from: Fields): AgentCard {
  const securitySchemes = readSchemes(from.securitySchemes, 'securitySchemes');
  return { ...readFields(from, READ, ''), ...(securitySchemes && { securitySchemes }) } as unknown as AgentCard;
}

/** Schemes are kept as they are: a client looks at those that it knows. */
function readSchemes(value: unknown, place: string): Readonly<Record<string, SecurityScheme>> | undefined {
  if (value === undefined || value === null) return undefined;
  const schemes = readObject(value, place);
  const problem = jsonProblem(schemes);
  if (problem) refuse(`${place}${problem.at}`, problem.text);
  for (const [name, scheme] of Object.entries(schemes)) readObject(scheme, within(place, name));
  return schemes as Readonly<Record<string, SecurityScheme>>;
}

function readFields(from: Fields, fields: readonly Field[], place: Place): Fields {
  const read: Record<string, unknown> = {};
  for (const field of fields) {
    const value = readField(from, field, place);
    if (value !== undefined) read[field.name] = value;
  }
  return read;
}

function readField(from: Fields, { name, many, presence, of }: Field, place: Place): unknown {
  const required = presence === '!' || presence === '+';
  if (typeof of === 'string') {
    return many === ''
      ? readLeaf(from, name, of, required, place)
      : (readTextList(from, name, of, place) ?? (required ? [] : undefined));
  }
  const value = from[name] ?? undefined;
  if (value === undefined && !required) return undefined;
  const at = within(place, name);
  if (many === '') return readFields(readObject(value ?? {}, at), of, at);
  if (many === '{}') {
    const entries = Object.entries(readObject(value ?? {}, at));
    return Object.fromEntries(
      entries.map(([key, one]) => [key, readFields(readObject(one, within(at, key)), of, within(at, key))]),
    );
  }
  const list = readList(value ?? [], at, cardEntries).map((one, index) => {
    return readFields(readObject(one, [at, index]), of, [at, index]);
  });
  // In ProtoJSON an empty list is one that is not set.
  return list.length > 0 || required ? list : undefined;
}

function readLeaf(from: Fields, name: string, kind: Kind, required: boolean, place: Place): unknown {
  if (kind === 'flag') return readFlag(from, name, place);
  if (kind === 'json') return readMetadata(from, name, place);
  if (!required) return readOptionalText(from, name, place, CHARS[kind]);
  if (kind !== 'words') return readText(from, name, place, CHARS[kind]);
  return from[name] === undefined || from[name] === null ? '' : readAnyText(from, name, place, CHARS[kind]);
}

function readTextList(from: Fields, name: string, kind: Kind, place: Place): readonly string[] | undefined {
  return readTexts(from, name, place, CHARS[kind as keyof typeof CHARS], cardEntries);
}
