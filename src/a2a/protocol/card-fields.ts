import { canonicalJson } from '../../network/membership/statement.js';
import { type Fields, jsonProblem, readObject, refuse, within } from './reading.js';
import { compile, type Field, type Kind, readFields, type Shape } from './shapes.js';
import type { AgentCard, SecurityScheme } from './types.js';

/** The fields of an agent card, written once: for reading a remote card, and for the canonical text that is signed. */

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
  const one = (entry: unknown) => (Array.isArray(of) ? normalize(entry, of, empties) : (entry ?? emptyOf(of as Kind)));
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
