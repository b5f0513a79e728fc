import type { ServerResponse } from 'node:http';
import type { Exchange } from '../../http/server/http-server.js';
import { EclipticError } from '../../runtime/errors.js';
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

/** Node gives header names in lower case. */
const EXTENSIONS = EXTENSIONS_HEADER.toLowerCase();
const LEGACY_EXTENSIONS = LEGACY_EXTENSIONS_HEADER.toLowerCase();
const DELEGATION = DELEGATION_HEADER.toLowerCase();
export const VERSION = VERSION_HEADER.toLowerCase();

export interface RequestContext {
  readonly version: ProtocolVersion;
  readonly terms: RequestTerms;
}

/** The headers of an HTTP request, or gRPC's metadata, by lower-case name. */
export interface Envelope extends Pick<RequestTerms, 'principal' | 'onGone'> {
  header(name: string): string | undefined;
}

/** Reads the headers that every binding has, and activates extensions. */
export function readEnvelope(
  { header, principal, onGone }: Envelope,
  extensions: readonly AgentExtension[],
  metadata: Metadata | undefined,
): { readonly terms: RequestTerms; readonly active: readonly string[] } {
  const { active, named, key, chain } = readTerms(header, extensions, metadata);
  return { terms: { principal, onGone, key, chain, extensions: named }, active };
}

function readTerms(header: Envelope['header'], extensions: readonly AgentExtension[], metadata: Metadata | undefined) {
  const named = parseExtensions(header(EXTENSIONS), header(LEGACY_EXTENSIONS));
  const active = activateExtensions(named, extensions);
  return { active, named, key: header('idempotency-key'), chain: readDelegation(metadata, header(DELEGATION)) };
}

/** Reads the headers of an HTTP request, and announces the active extensions in its response. */
export function contextOf(
  exchange: Exchange,
  extensions: readonly AgentExtension[],
  metadata: Metadata | undefined,
): RequestContext {
  const { request, response, query, principal } = exchange;
  const { headers } = request;
  const version = versionOf(exchange);
  const header = (name: string) => first(headers[name]);
  const { key, chain, active, named } = readTerms(header, extensions, metadata);
  if (active.length > 0) response.always[EXTENSIONS_HEADER] = writeExtensions(active);
  response.always[VERSION_HEADER] = version;
  const terms: RequestTerms = {
    principal,
    onGone: goneOf(response),
    key,
    chain,
    extensions: named,
    announce: (name, value) => {
      response.always[name] = value;
    },
    after: (taskId) => readCursor(header('last-event-id') ?? query.get('lastEventId') ?? undefined, taskId),
  };
  return { version, terms };
}

/** For the bindings that 1.0 brought. */
export function requireNewest(said: string | undefined, binding: string): void {
  if (said === undefined || said === '' || negotiateVersion(said) === '1.0') return;
  throw new EclipticError('VERSION_NOT_SUPPORTED', `${binding} is served in version 1.0 only`, {
    requested: said,
    supported: ['1.0'],
  });
}

export function goneOf(response: ServerResponse): RequestTerms['onGone'] {
  return (callback) => {
    // A caller that left before there was a task to wait for.
    if (response.closed) queueMicrotask(callback);
    else response.on('close', callback);
    return () => response.off('close', callback);
  };
}

export function versionOf({ request, query }: Pick<Exchange, 'request' | 'query'>): ProtocolVersion {
  return negotiateVersion(first(request.headers[VERSION]), query);
}

/** Never throws, so that error answers can use it. */
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
