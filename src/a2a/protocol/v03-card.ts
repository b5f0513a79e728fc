import { EclipticError } from '../../runtime/errors.js';
import { wireVersion } from './headers.js';
import { compact, type Fields, readObject } from './reading.js';
import type { AgentCard, AgentInterface, AgentSkill, SecurityRequirement, SecurityScheme } from './types.js';
import type { V03Card, V03Security, V03SecurityScheme, V03Skill } from './v03-types.js';

/** Cards between 0.3 and 1.0. */

/** The card as 0.3 has it: its 0.3 interfaces only. Throws `VERSION_NOT_SUPPORTED` where it has none. */
export function toV03Card(card: AgentCard): V03Card {
  const [first, ...others] = card.supportedInterfaces.filter(isV03);
  if (!first) throw new EclipticError('VERSION_NOT_SUPPORTED', `${card.name} has no interface for A2A 0.3`);
  const { streaming, pushNotifications, extensions, extendedAgentCard } = card.capabilities;
  return compact<V03Card>({
    protocolVersion: first.protocolVersion,
    name: card.name,
    description: card.description,
    version: card.version,
    url: first.url,
    preferredTransport: first.protocolBinding,
    additionalInterfaces:
      others.length > 0 ? others.map(({ url, protocolBinding }) => ({ url, transport: protocolBinding })) : undefined,
    capabilities: compact<V03Card['capabilities']>({
      streaming,
      pushNotifications,
      extensions: extensions?.length ? extensions : undefined,
    }),
    supportsAuthenticatedExtendedCard: extendedAgentCard,
    defaultInputModes: card.defaultInputModes,
    defaultOutputModes: card.defaultOutputModes,
    skills: card.skills.map(toV03Skill),
    provider: card.provider,
    documentationUrl: card.documentationUrl,
    iconUrl: card.iconUrl,
    securitySchemes: card.securitySchemes && mapValues(card.securitySchemes, toV03SecurityScheme),
    security: toV03Security(card.securityRequirements),
    signatures: card.signatures?.length ? card.signatures : undefined,
  });
}

/** A 1.0 card with what 0.3 has beside it. */
export type MergedCard = AgentCard & Partial<Omit<V03Card, keyof AgentCard>>;

/**
 * One document for readers of both versions: everything of 1.0, and beside it what a 0.3 reader looks for. Nothing of
 * 1.0 is changed, so its signatures hold for a verifier that keeps to the fields it knows.
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

/** A 0.3 card in the shape of 1.0, for the reader to judge. What is there in the shape of 1.0 already stays. */
export function fromV03Card(value: unknown): Fields {
  const from = readObject(value, 'card');
  return {
    ...from,
    supportedInterfaces: from.supportedInterfaces ?? fromInterfaces(from),
    capabilities: fromCapabilities(from),
    skills: Array.isArray(from.skills) ? from.skills.map(fromSkill) : from.skills,
    securitySchemes: isFields(from.securitySchemes)
      ? mapValues(from.securitySchemes, fromV03SecurityScheme)
      : from.securitySchemes,
    securityRequirements: from.securityRequirements ?? fromSecurity(from.security),
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

function fromCapabilities({ capabilities, supportsAuthenticatedExtendedCard }: Fields): unknown {
  if (!isFields(capabilities)) return capabilities;
  return { extendedAgentCard: supportsAuthenticatedExtendedCard, ...capabilities };
}

function toV03Skill({ securityRequirements, ...skill }: AgentSkill): V03Skill {
  return compact<V03Skill>({ ...skill, security: toV03Security(securityRequirements) });
}

function fromSkill(value: unknown): unknown {
  if (!isFields(value)) return value;
  return { ...value, securityRequirements: value.securityRequirements ?? fromSecurity(value.security) };
}

function toV03Security(requirements: readonly SecurityRequirement[] | undefined): V03Security | undefined {
  if (!requirements?.length) return undefined;
  return requirements.map(({ schemes }) => mapValues(schemes, ({ list }) => list ?? []));
}

function fromSecurity(security: unknown): unknown {
  if (!Array.isArray(security)) return security;
  return security.map((entry) => ({ schemes: isFields(entry) ? mapValues(entry, (list) => ({ list })) : entry }));
}

function toV03SecurityScheme(scheme: SecurityScheme): V03SecurityScheme {
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
    const { deviceCode: _, ...flows } = oauth2.flows as Fields;
    return { type: 'oauth2', ...oauth2, flows: mapValues(flows, withoutPkce) };
  }
  if (oidc) return { type: 'openIdConnect', ...oidc };
  return { type: 'mutualTLS', ...mtls };
}

function withoutPkce(flow: unknown): unknown {
  const { pkceRequired: _, ...others } = flow as Fields;
  return others;
}

/** The flows of 0.3 may be several, of which 1.0 has one: the safest is taken. */
const FLOWS = ['authorizationCode', 'clientCredentials', 'implicit', 'password'];

function fromV03SecurityScheme(value: unknown): unknown {
  if (!isFields(value) || typeof value.type !== 'string') return value;
  // A merged card has both forms.
  const modern = Object.entries(value).filter(([key]) => key.endsWith('SecurityScheme'));
  if (modern.length > 0) return Object.fromEntries(modern);
  const { type, ...others } = value;
  switch (type) {
    case 'apiKey': {
      const { in: location, ...rest } = others;
      return { apiKeySecurityScheme: { location, ...rest } };
    }
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

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function mapValues<T, U>(record: Readonly<Record<string, T>>, map: (value: T, key: string) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]));
}
