import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { A2A_LIMITS } from './limits.js';
import { refuse } from './reading.js';
import type { AgentExtension } from './types.js';

/** The protocol versions that are spoken here, the newest first. */
export const PROTOCOL_VERSIONS = ['1.0', '0.3'] as const;
export type ProtocolVersion = (typeof PROTOCOL_VERSIONS)[number];

export const VERSION_HEADER = 'A2A-Version';

const VERSION = /^(\d{1,4})\.(\d{1,4})(?:\.\d{1,9})?$/;

/**
 * Which version a request is in: as its header says, else its query parameter; a client that says nothing speaks 0.3.
 * Patch numbers mean nothing on the wire.
 */
export function negotiateVersion(header: string | undefined, query?: URLSearchParams): ProtocolVersion {
  const said = header?.trim() || queryVersion(query);
  if (said === undefined || said === '') return '0.3';
  const version = wireVersion(said);
  const found = PROTOCOL_VERSIONS.find((known) => known === version);
  if (found) return found;
  const shown = cutText(said, 32);
  throw new EclipticError('VERSION_NOT_SUPPORTED', `version "${shown}" is not one of ${PROTOCOL_VERSIONS.join(', ')}`, {
    requested: shown,
    supported: PROTOCOL_VERSIONS,
  });
}

/** `Major.Minor` of a version on a card or a request; undefined where it is none. */
export function wireVersion(version: string): string | undefined {
  const [, major, minor] = VERSION.exec(version.trim()) ?? [];
  return major === undefined ? undefined : `${Number(major)}.${Number(minor)}`;
}

/** Parameter names are compared as header names are. */
function queryVersion(query: URLSearchParams | undefined): string | undefined {
  if (query === undefined || query.size === 0) return undefined;
  for (const [name, value] of query) if (name.toLowerCase() === 'a2a-version') return value.trim();
  return undefined;
}

export const EXTENSIONS_HEADER = 'A2A-Extensions';
/** As 0.3 called it. */
export const LEGACY_EXTENSIONS_HEADER = 'X-A2A-Extensions';

/** Ours, declared on our cards. An identifier, not a place to look. */
export const EXTENSION_URIS = {
  /** SSE ids and `Last-Event-ID`: a broken stream goes on without a gap. */
  resume: 'urn:ecliptic:a2a:resume:1',
  /** `Idempotency-Key`, and one task for one message id. */
  idempotency: 'urn:ecliptic:a2a:idempotency:1',
  /** On whose behalf a task is done. */
  delegation: 'urn:ecliptic:a2a:delegation:1',
} as const;

const NONE: readonly string[] = [];

/** The URIs that a client names, each once and in its order. Several headers count as one. */
export function parseExtensions(...headers: readonly (string | readonly string[] | undefined)[]): readonly string[] {
  if (headers.every((header) => header === undefined)) return NONE;
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
 * The extensions that are active for a request: those it names that are offered, compared exactly, so that another
 * version of an extension is another extension. Throws `EXTENSION_REQUIRED` when it leaves out a required one.
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
 * Where a reader is in the events of a task. Each event has a number of its own, without gaps, that outlives the
 * process; as an SSE id it names its task too, so that a cursor cannot be used for another.
 */
export function writeCursor(taskId: string, sequence: number): string {
  return `${taskId}:${sequence}`;
}

/** The number after which to go on, from a `Last-Event-ID` header; undefined where the reader begins anew. */
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
