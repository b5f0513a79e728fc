import type { Exchange } from '../../http/server/http-server.js';
import { DELEGATION_HEADER, readDelegation } from '../protocol/delegation.js';
import {
  activateExtensions,
  EXTENSIONS_HEADER,
  LEGACY_EXTENSIONS_HEADER,
  negotiateVersion,
  type ProtocolVersion,
  parseExtensions,
  readCursor,
  VERSION_HEADER,
  writeExtensions,
} from '../protocol/headers.js';
import type { AgentExtension, Metadata } from '../protocol/types.js';
import type { RequestTerms } from './operations.js';

/** As node has them. */
const EXTENSIONS = EXTENSIONS_HEADER.toLowerCase();
const LEGACY_EXTENSIONS = LEGACY_EXTENSIONS_HEADER.toLowerCase();
const DELEGATION = DELEGATION_HEADER.toLowerCase();
export const VERSION = VERSION_HEADER.toLowerCase();

/** What a request says in its headers, whatever the binding. */
export interface RequestContext {
  readonly version: ProtocolVersion;
  readonly terms: RequestTerms;
}

/** What came with a request besides its parameters: headers, or gRPC's metadata, by their lower-case names. */
export interface Envelope extends Pick<RequestTerms, 'principal' | 'onGone'> {
  header(name: string): string | undefined;
}

/** What a request says besides its parameters, and which of the extensions that it names are active. */
export function readEnvelope(
  { header, principal, onGone }: Envelope,
  extensions: readonly AgentExtension[],
  metadata: Metadata | undefined,
): { readonly terms: RequestTerms; readonly active: readonly string[] } {
  const named = parseExtensions(header(EXTENSIONS), header(LEGACY_EXTENSIONS));
  const active = activateExtensions(named, extensions);
  const terms = {
    principal,
    onGone,
    key: header('idempotency-key'),
    chain: readDelegation(metadata, header(DELEGATION)),
  };
  return { terms, active };
}

/** Reads the headers of an A2A request, and answers the extensions that are active. */
export function contextOf(
  exchange: Exchange,
  extensions: readonly AgentExtension[],
  metadata: Metadata | undefined,
): RequestContext {
  const { request, response, query, principal } = exchange;
  const { headers } = request;
  const version = versionOf(exchange);
  const onGone = (callback: () => void) => {
    response.on('close', callback);
    return () => response.off('close', callback);
  };
  const header = (name: string) => first(headers[name]);
  const { terms, active } = readEnvelope({ header, principal, onGone }, extensions, metadata);
  if (active.length > 0) response.always[EXTENSIONS_HEADER] = writeExtensions(active);
  response.always[VERSION_HEADER] = version;
  const lastEventId = header('last-event-id') ?? query.get('lastEventId') ?? undefined;
  return { version, terms: { ...terms, after: (taskId) => readCursor(lastEventId, taskId) } };
}

export function versionOf({ request, query }: Pick<Exchange, 'request' | 'query'>): ProtocolVersion {
  return negotiateVersion(first(request.headers[VERSION]), query);
}

/** For who answers when something was thrown, and must not throw again. */
export function speaksV03(exchange: Pick<Exchange, 'request' | 'query'>): boolean {
  try {
    return versionOf(exchange) === '0.3';
  } catch {
    return false;
  }
}

function first(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
