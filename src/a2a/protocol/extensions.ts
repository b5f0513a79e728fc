import { EclipticError } from '../../runtime/errors.js';
import { A2A_LIMITS } from './limits.js';
import type { AgentExtension } from './types.js';

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
