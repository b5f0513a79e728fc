import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';

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
