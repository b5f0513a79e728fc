import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { A2A_LIMITS } from './limits.js';
import { refuse } from './reading.js';
import type { AgentExtension } from './types.js';

/** Newest first. */
export const PROTOCOL_VERSIONS = ['1.0', '0.3'] as const;
export type ProtocolVersion = (typeof PROTOCOL_VERSIONS)[number];

export const VERSION_HEADER = 'A2A-Version';

const VERSION = /^(\d{1,4})\.(\d{1,4})(?:\.\d{1,9})?$/;

/**
 * The version of a request: from its header, else its query parameter, else 0.3, as the protocol demands. Patch numbers
 * are ignored.
 */
export function negotiateVersion(header: string | undefined, query?: URLSearchParams): ProtocolVersion {
  const said = header?.trim() || queryVersion(query);
  if (said === undefined || said === '') return '0.3';
  if (said === '1.0') return said;
  const version = wireVersion(said);
  const found = PROTOCOL_VERSIONS.find((known) => known === version);
  if (found) return found;
  const shown = cutText(said, 32);
  throw new EclipticError('VERSION_NOT_SUPPORTED', `version "${shown}" is not one of ${PROTOCOL_VERSIONS.join(', ')}`, {
    requested: shown,
    supported: PROTOCOL_VERSIONS,
  });
}

/** `Major.Minor` of a version text; undefined if it is none. */
export function wireVersion(version: string): string | undefined {
  const [, major, minor] = VERSION.exec(version.trim()) ?? [];
  return major === undefined ? undefined : `${Number(major)}.${Number(minor)}`;
}

/** Parameter names are case-insensitive, like header names. */
function queryVersion(query: URLSearchParams | undefined): string | undefined {
  if (query === undefined || query.size === 0) return undefined;
  for (const [name, value] of query) if (name.toLowerCase() === 'a2a-version') return value.trim();
  return undefined;
}

export const EXTENSIONS_HEADER = 'A2A-Extensions';
/** The name in 0.3. */
export const LEGACY_EXTENSIONS_HEADER = 'X-A2A-Extensions';

/** Our extensions, declared on our cards. The URNs are identifiers, not locations. */
export const EXTENSION_URIS = {
  /** SSE ids and `Last-Event-ID`: a broken stream resumes without a gap. */
  resume: 'urn:ecliptic:a2a:resume:1',
  /** `Idempotency-Key`, and one task per message id. */
  idempotency: 'urn:ecliptic:a2a:idempotency:1',
  /** The delegation chain of a task. */
  delegation: 'urn:ecliptic:a2a:delegation:1',
} as const;

const NONE: readonly string[] = [];

/** The URIs that a client names, in order and without duplicates. */
export function parseExtensions(...headers: readonly (string | readonly string[] | undefined)[]): readonly string[] {
  if (headers[0] === undefined && headers[1] === undefined && headers.length < 3) return NONE;
  const named = new Set<string>();
  for (const header of headers.flat()) {
    for (const entry of header?.split(',') ?? []) {
      const uri = entry.trim();
      if (uri !== '' && uri.length <= A2A_LIMITS.urlChars && named.size < A2A_LIMITS.listEntries) named.add(uri);
    }
  }
  return [...named];
}

export function writeExtensions(uris: Iterable<string>): string {
  return [...uris].join(', ');
}

/**
 * The requested extensions that are offered. URIs are compared exactly: another version is another extension. Throws
 * `EXTENSION_REQUIRED` if a required one is not requested.
 */
export function activateExtensions(
  requested: readonly string[],
  offered: readonly AgentExtension[] = [],
): readonly string[] {
  const isMissing = ({ uri, required }: AgentExtension) => required && !requested.includes(uri);
  if (offered.some(isMissing)) {
    const missing = offered.filter(isMissing).map(({ uri }) => uri);
    throw new EclipticError('EXTENSION_REQUIRED', `the request must support ${missing.join(', ')}`, { missing });
  }
  if (requested.length === 0) return NONE;
  return requested.filter((uri) => offered.some((extension) => extension.uri === uri));
}

/**
 * An SSE id: the task and the number of the event, so that a cursor cannot be used for another task. Numbers have no
 * gaps and survive restarts.
 */
export function writeCursor(taskId: string, sequence: number): string {
  return `${taskId}:${sequence}`;
}

/** The number in a `Last-Event-ID` header, after which to resume; undefined without one. */
export function readCursor(lastEventId: string | undefined, taskId: string): number | undefined {
  const said = lastEventId?.trim();
  if (said === undefined || said === '') return undefined;
  const colon = said.lastIndexOf(':');
  const digits = said.slice(colon + 1);
  if (said.slice(0, Math.max(colon, 0)) !== taskId || !/^(0|[1-9]\d{0,14})$/.test(digits)) {
    refuse('Last-Event-ID', 'is not the id of an event of this task');
  }
  return Number(digits);
}
