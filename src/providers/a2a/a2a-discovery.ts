import type { Reach } from '../../a2a/client/remote-endpoint.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { AgentCard } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import type { EndpointSource } from './a2a-router.js';
import { type A2AEndpoint, MAX_ENDPOINTS, MESH } from './a2a-types.js';

/** What is found comes after what was configured, unless it is configured otherwise. */
const FOUND_PRIORITY = 100;
const CATALOGUE_MS = 4_000;
const CATALOGUE_BYTES = 1_048_576;
/** How catalogues of AI resources say that an entry is an A2A agent. */
const CARD_TYPE = 'application/a2a-agent-card+json';

export interface Found {
  readonly priority?: number | undefined;
}

/** Agents of other nodes, as the registry knows them, that have all these capabilities. */
export function remoteCards(
  registry: AgentRegistry,
  viewer: string,
  required: readonly string[],
  { priority = FOUND_PRIORITY }: Found = {},
): EndpointSource {
  return () =>
    registry
      .getRemoteCards(viewer)
      .filter((card) => required.every((one) => capabilitiesOf(card).includes(one)))
      .map((card) => {
        const address = `${card.id}@${card.node}`;
        return { id: address, url: `${MESH}${address}`, priority, capabilities: capabilitiesOf(card) };
      });
}

/** Agents that a list somewhere on the web names. */
export function catalogueAt(
  runtime: Runtime,
  url: string,
  { allowPrivate, ca, resolve }: Reach = {},
  { priority = FOUND_PRIORITY }: Found = {},
): EndpointSource {
  return async () => {
    const { status, body } = await guardedFetch(runtime, url, {
      headers: { accept: 'application/json' },
      timeoutMs: CATALOGUE_MS,
      maxBytes: CATALOGUE_BYTES,
      ...(allowPrivate === undefined ? {} : { allowPrivate }),
      ...(ca === undefined ? {} : { ca }),
      ...(resolve === undefined ? {} : { resolve }),
    });
    if (status !== 200) {
      throw new EclipticError('REMOTE_FAILED', `the catalogue at ${url} answered with HTTP ${status}`, { status });
    }
    return entriesOf(body.toString(), url).map((place) => ({ id: place, url: place, priority, capabilities: [] }));
  };
}

/** URLs in a list, or in the `entries` or `agents` of an object: as they are, or as the `url` of an entry. */
function entriesOf(text: string, url: string): string[] {
  const list = listIn(text);
  if (!list) throw new EclipticError('INVALID_AGENT_RESPONSE', `there is no catalogue of agents at ${url}`);
  return list.slice(0, MAX_ENDPOINTS).flatMap((entry) => {
    if (typeof entry === 'string') return absolute(entry, url);
    const { url: place, mediaType, type } = (entry ?? {}) as Record<string, unknown>;
    if ((mediaType ?? type ?? CARD_TYPE) !== CARD_TYPE || typeof place !== 'string') return [];
    return absolute(place, url);
  });
}

function listIn(text: string): readonly unknown[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { entries, agents } = (value ?? {}) as Record<string, unknown>;
  return [value, entries, agents].find((one): one is unknown[] => Array.isArray(one));
}

function absolute(place: string, base: string): string[] {
  return URL.canParse(place, base) ? [new URL(place, base).href] : [];
}

function capabilitiesOf({ capabilities }: AgentCard): A2AEndpoint['capabilities'] {
  return capabilities.map(({ id }) => id);
}
