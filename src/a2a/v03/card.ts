import { EclipticError } from '../../runtime/errors.js';
import { toSimpleCard } from '../protocol/card.js';
import { readCard } from '../protocol/card-fields.js';
import { wireVersion } from '../protocol/headers.js';
import { compact, type Fields, isFields, readObject } from '../protocol/reading.js';
import type { A2AAgentCard } from '../protocol/simple.js';
import type {
  AgentCapabilities,
  AgentCard,
  AgentInterface,
  AgentSkill,
  SecurityRequirement,
  SecurityScheme,
} from '../protocol/types.js';

/** Each entry is a set of schemes that together suffice, with their scopes. */
type V03Security = readonly Readonly<Record<string, readonly string[]>>[];

type Same = 'name' | 'description' | 'version' | 'defaultInputModes' | 'defaultOutputModes' | 'provider';

export interface V03Card extends Pick<AgentCard, Same | 'documentationUrl' | 'iconUrl' | 'signatures'> {
  readonly protocolVersion: string;
  readonly url: string;
  readonly preferredTransport: string;
  readonly additionalInterfaces?: readonly { readonly url: string; readonly transport: string }[];
  readonly capabilities: Omit<AgentCapabilities, 'extendedAgentCard'>;
  readonly supportsAuthenticatedExtendedCard?: boolean;
  readonly skills: readonly (Omit<AgentSkill, 'securityRequirements'> & { readonly security?: V03Security })[];
  readonly securitySchemes?: Readonly<Record<string, Fields & { readonly type: string }>>;
  readonly security?: V03Security;
}

/** The card as 0.3 has it, with its 0.3 interfaces only. Throws `VERSION_NOT_SUPPORTED` where it has none. */
export function toV03Card(card: AgentCard): V03Card {
  const { supportedInterfaces, capabilities, securitySchemes, securityRequirements, signatures, ...same } = card;
  const [first, ...others] = supportedInterfaces.filter(isV03);
  if (!first) throw new EclipticError('VERSION_NOT_SUPPORTED', `${card.name} has no interface for A2A 0.3`);
  const { extendedAgentCard, extensions, ...flags } = capabilities;
  return compact<V03Card>({
    ...same,
    protocolVersion: first.protocolVersion,
    url: first.url,
    preferredTransport: first.protocolBinding,
    additionalInterfaces: ifAny(others.map(({ url, protocolBinding: transport }) => ({ url, transport }))),
    capabilities: compact<V03Card['capabilities']>({ ...flags, extensions: ifAny(extensions) }),
    supportsAuthenticatedExtendedCard: extendedAgentCard,
    skills: card.skills.map(({ securityRequirements: needs, ...skill }) =>
      compact<V03Card['skills'][number]>({ ...skill, security: toV03Security(needs) }),
    ),
    securitySchemes: securitySchemes && mapValues(securitySchemes, toV03Scheme),
    security: toV03Security(securityRequirements),
    signatures: ifAny(signatures),
  });
}

/** A 1.0 card with the fields of 0.3 beside it. */
export type MergedCard = AgentCard & Partial<Omit<V03Card, keyof AgentCard>>;

/**
 * One document for readers of both versions: everything of 1.0, and beside it the fields that a 0.3 reader looks for.
 * Nothing of 1.0 is changed, so its signatures hold for a verifier that keeps to the fields it knows.
 */
export function toMergedCard(card: AgentCard): MergedCard {
  if (!card.supportedInterfaces.some(isV03)) return card;
  const { skills, securitySchemes, capabilities: _, signatures: __, ...old } = toV03Card(card);
  return compact<MergedCard>({
    ...old,
    ...card,
    skills: card.skills.map((skill, index) => ({ ...skills[index], ...skill })),
    securitySchemes:
      card.securitySchemes &&
      mapValues(card.securitySchemes, (scheme, name) => ({ ...securitySchemes![name], ...scheme })),
  });
}

export type ServedCard = MergedCard & Pick<A2AAgentCard, 'authentication'>;

/**
 * The card as it is served: one document for readers of 1.0, 0.3 and the simple interface. `url` is where 0.3 looks
 * for its endpoint; readers of the simple interface know theirs.
 */
export function toServedCard(card: AgentCard): ServedCard {
  return { ...toMergedCard(card), authentication: toSimpleCard(card, '').authentication };
}

/** A remote agent's card in any shape: 1.0, 0.3, both, or the simple one. Throws `INVALID_CARD` with the place. */
export function takeAgentCard(value: unknown): AgentCard {
  try {
    return readCard(fromV03Card(value));
  } catch (error) {
    if (!(error instanceof EclipticError) || error.code !== 'INVALID_PARAMS') throw error;
    throw new EclipticError('INVALID_CARD', `not a valid agent card: ${error.message}`, { faults: [error.message] });
  }
}

/** A 0.3 card in the shape of 1.0, to be checked by `readCard`. Fields that have the shape of 1.0 already stay. */
export function fromV03Card(value: unknown): Fields {
  const from = readObject(value, 'card');
  const { capabilities, securitySchemes, skills, supportsAuthenticatedExtendedCard: extendedAgentCard } = from;
  return {
    ...from,
    supportedInterfaces: from.supportedInterfaces ?? fromInterfaces(from),
    capabilities: isFields(capabilities) ? { extendedAgentCard, ...capabilities } : capabilities,
    skills: Array.isArray(skills) ? skills.map((skill) => (isFields(skill) ? withRequirements(skill) : skill)) : skills,
    securitySchemes: isFields(securitySchemes) ? mapValues(securitySchemes, fromV03Scheme) : securitySchemes,
    securityRequirements: withRequirements(from).securityRequirements,
  };
}

function isV03({ protocolVersion }: AgentInterface): boolean {
  return wireVersion(protocolVersion) === '0.3';
}

/** A card that declares no version of the protocol has no interface of it. */
function fromInterfaces({ url, preferredTransport, additionalInterfaces, protocolVersion }: Fields): unknown[] {
  if (typeof protocolVersion !== 'string') return [];
  const version = wireVersion(protocolVersion) ?? protocolVersion;
  const first = { url, protocolBinding: preferredTransport ?? 'JSONRPC', protocolVersion: version };
  const additional = (Array.isArray(additionalInterfaces) ? additionalInterfaces : [])
    .filter(isFields)
    .map((other) => ({ url: other.url, protocolBinding: other.transport, protocolVersion: version }))
    // The main interface is often listed again among the additional ones.
    .filter((other) => other.url !== first.url || other.protocolBinding !== first.protocolBinding);
  return [first, ...additional];
}

function toV03Security(requirements: readonly SecurityRequirement[] | undefined): V03Security | undefined {
  return ifAny(requirements)?.map(({ schemes }) => mapValues(schemes, ({ list }) => list ?? []));
}

function withRequirements({ securityRequirements, security, ...others }: Fields): Fields {
  const old = Array.isArray(security)
    ? security.map((entry) => ({ schemes: isFields(entry) ? mapValues(entry, (list) => ({ list })) : entry }))
    : security;
  return { ...others, security, securityRequirements: securityRequirements ?? old };
}

function toV03Scheme(scheme: SecurityScheme): Fields & { readonly type: string } {
  const {
    apiKeySecurityScheme: apiKey,
    httpAuthSecurityScheme: http,
    oauth2SecurityScheme: oauth2,
    openIdConnectSecurityScheme: oidc,
    mtlsSecurityScheme: mtls,
  } = scheme;
  if (apiKey) {
    const { location, ...others } = apiKey;
    return { type: 'apiKey', in: location, ...others };
  }
  if (http) return { type: 'http', ...http };
  if (oauth2) {
    // 0.3 has no device flow, and nothing to say about PKCE.
    const { deviceCode: _, ...flows } = oauth2.flows;
    const withoutPkce = ({ pkceRequired: __, ...flow }: Fields) => flow;
    return { type: 'oauth2', ...oauth2, flows: mapValues(flows as Record<string, Fields>, withoutPkce) };
  }
  if (oidc) return { type: 'openIdConnect', ...oidc };
  return { type: 'mutualTLS', ...mtls };
}

/** The flows of 0.3 may be several, of which 1.0 has one: the safest is taken. */
const FLOWS = ['authorizationCode', 'clientCredentials', 'implicit', 'password'];

function fromV03Scheme(value: unknown): unknown {
  if (!isFields(value) || typeof value.type !== 'string') return value;
  // A merged card has both forms.
  const modern = Object.entries(value).filter(([key]) => key.endsWith('SecurityScheme'));
  if (modern.length > 0) return Object.fromEntries(modern);
  const { type, in: location, ...others } = value;
  switch (type) {
    case 'apiKey':
      return { apiKeySecurityScheme: { location, ...others } };
    case 'http':
      return { httpAuthSecurityScheme: others };
    case 'oauth2': {
      const flows = isFields(others.flows) ? others.flows : {};
      const chosen = FLOWS.find((flow) => flows[flow] !== undefined);
      return { oauth2SecurityScheme: { ...others, flows: chosen === undefined ? {} : { [chosen]: flows[chosen] } } };
    }
    case 'openIdConnect':
      return { openIdConnectSecurityScheme: others };
    case 'mutualTLS':
      return { mtlsSecurityScheme: others };
    default:
      return value;
  }
}

function ifAny<T>(list: readonly T[] | undefined): readonly T[] | undefined {
  return list?.length ? list : undefined;
}

function mapValues<T, U>(record: Readonly<Record<string, T>>, map: (value: T, key: string) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]));
}
