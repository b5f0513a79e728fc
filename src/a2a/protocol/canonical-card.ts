import { canonicalJson } from '../../network/membership/statement.js';
import type { AgentCard } from './types.js';

/**
 * The text of a card that is signed: RFC 8785 over exactly what the protocol's fields hold. Required fields are there
 * even when empty, fields with explicit presence when they are set, all others when they differ from their default;
 * what the protocol does not know is no part of it.
 */
export function canonicalCard(card: AgentCard): string {
  return canonicalJson(normalize(card, CARD, true));
}

/** The same without required fields that are empty, which the official SDKs leave out of what they sign. */
export function canonicalCardWithoutEmpties(card: AgentCard): string {
  return canonicalJson(normalize(card, CARD, false));
}

type Presence =
  /** Always there, with an empty value if need be. */
  | 'required'
  /** There when it was set, to whatever value. */
  | 'explicit'
  /** There when it is not the default. */
  | 'implicit';

type Shape = 'text' | 'flag' | 'json' | { readonly list: Shape } | { readonly map: Shape } | MessageShape;
interface MessageShape {
  readonly fields: Readonly<Record<string, readonly [Presence, Shape]>>;
}

const texts: Shape = { list: 'text' };

const REQUIREMENTS: Shape = {
  list: { fields: { schemes: ['implicit', { map: { fields: { list: ['implicit', texts] } } }] } },
};

const scopes = { map: 'text' } as const;

/** Fields of a message type have explicit presence: an empty one that was set is not the same as none. */
const SCHEME: Shape = {
  fields: {
    apiKeySecurityScheme: [
      'explicit',
      { fields: { description: ['implicit', 'text'], location: ['required', 'text'], name: ['required', 'text'] } },
    ],
    httpAuthSecurityScheme: [
      'explicit',
      {
        fields: {
          description: ['implicit', 'text'],
          scheme: ['required', 'text'],
          bearerFormat: ['implicit', 'text'],
        },
      },
    ],
    oauth2SecurityScheme: [
      'explicit',
      {
        fields: {
          description: ['implicit', 'text'],
          oauth2MetadataUrl: ['implicit', 'text'],
          flows: [
            'required',
            {
              fields: {
                authorizationCode: [
                  'explicit',
                  {
                    fields: {
                      authorizationUrl: ['required', 'text'],
                      tokenUrl: ['required', 'text'],
                      refreshUrl: ['implicit', 'text'],
                      scopes: ['required', scopes],
                      pkceRequired: ['implicit', 'flag'],
                    },
                  },
                ],
                clientCredentials: [
                  'explicit',
                  {
                    fields: {
                      tokenUrl: ['required', 'text'],
                      refreshUrl: ['implicit', 'text'],
                      scopes: ['required', scopes],
                    },
                  },
                ],
                deviceCode: [
                  'explicit',
                  {
                    fields: {
                      deviceAuthorizationUrl: ['required', 'text'],
                      tokenUrl: ['required', 'text'],
                      refreshUrl: ['implicit', 'text'],
                      scopes: ['required', scopes],
                    },
                  },
                ],
                implicit: [
                  'explicit',
                  {
                    fields: {
                      authorizationUrl: ['implicit', 'text'],
                      refreshUrl: ['implicit', 'text'],
                      scopes: ['implicit', scopes],
                    },
                  },
                ],
                password: [
                  'explicit',
                  {
                    fields: {
                      tokenUrl: ['implicit', 'text'],
                      refreshUrl: ['implicit', 'text'],
                      scopes: ['implicit', scopes],
                    },
                  },
                ],
              },
            },
          ],
        },
      },
    ],
    openIdConnectSecurityScheme: [
      'explicit',
      { fields: { description: ['implicit', 'text'], openIdConnectUrl: ['required', 'text'] } },
    ],
    mtlsSecurityScheme: ['explicit', { fields: { description: ['implicit', 'text'] } }],
  },
};

const CARD: MessageShape = {
  fields: {
    name: ['required', 'text'],
    description: ['required', 'text'],
    supportedInterfaces: [
      'required',
      {
        list: {
          fields: {
            url: ['required', 'text'],
            protocolBinding: ['required', 'text'],
            tenant: ['implicit', 'text'],
            protocolVersion: ['required', 'text'],
          },
        },
      },
    ],
    provider: ['explicit', { fields: { url: ['required', 'text'], organization: ['required', 'text'] } }],
    version: ['required', 'text'],
    documentationUrl: ['explicit', 'text'],
    capabilities: [
      'required',
      {
        fields: {
          streaming: ['explicit', 'flag'],
          pushNotifications: ['explicit', 'flag'],
          extendedAgentCard: ['explicit', 'flag'],
          extensions: [
            'implicit',
            {
              list: {
                fields: {
                  uri: ['implicit', 'text'],
                  description: ['implicit', 'text'],
                  required: ['implicit', 'flag'],
                  params: ['explicit', 'json'],
                },
              },
            },
          ],
        },
      },
    ],
    securitySchemes: ['implicit', { map: SCHEME }],
    securityRequirements: ['implicit', REQUIREMENTS],
    defaultInputModes: ['required', texts],
    defaultOutputModes: ['required', texts],
    skills: [
      'required',
      {
        list: {
          fields: {
            id: ['required', 'text'],
            name: ['required', 'text'],
            description: ['required', 'text'],
            tags: ['required', texts],
            examples: ['implicit', texts],
            inputModes: ['implicit', texts],
            outputModes: ['implicit', texts],
            securityRequirements: ['implicit', REQUIREMENTS],
          },
        },
      },
    ],
    iconUrl: ['explicit', 'text'],
  },
};

function normalize(value: unknown, shape: Shape, empties: boolean): unknown {
  if (typeof shape === 'string') return value ?? emptyOf(shape);
  if ('list' in shape) return Array.isArray(value) ? value.map((entry) => normalize(entry, shape.list, empties)) : [];
  const from = (typeof value === 'object' ? value : undefined) ?? {};
  if ('map' in shape) {
    return Object.fromEntries(Object.entries(from).map(([key, entry]) => [key, normalize(entry, shape.map, empties)]));
  }
  const kept: Record<string, unknown> = {};
  for (const [name, [presence, inner]] of Object.entries(shape.fields)) {
    const member = Object.hasOwn(from, name) ? (from as Record<string, unknown>)[name] : undefined;
    const set = member !== undefined && member !== null;
    const always = presence === 'required' && empties;
    if (always || (set && (presence === 'explicit' || !isDefault(member)))) {
      kept[name] = normalize(member, inner, empties);
    }
  }
  return kept;
}

function emptyOf(shape: 'text' | 'flag' | 'json'): unknown {
  return shape === 'text' ? '' : shape === 'flag' ? false : {};
}

/** Of fields without explicit presence: empty text, `false`, and empty lists and maps. */
function isDefault(value: unknown): boolean {
  return typeof value === 'object' && value !== null ? Object.keys(value).length === 0 : !value;
}
