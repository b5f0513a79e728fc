import type { Client, VersionNegotiationMode } from '@modelcontextprotocol/client';
import { VERSION } from '../../runtime/package.js';
import type { ClientSdk } from './login/failures.js';

/** The protocol whose every request stands for itself. */
export const MODERN = '2026-07-28';
/** How long a server may take to introduce itself; the supervisor's patience ends first. */
export const HANDSHAKE_MS = 60_000;

/** What a server of the 2025 era may ask in the middle of a call; with a newer one, each call says what its caller can. */
const CAPABILITIES = { elicitation: { form: { applyDefaults: true } } };

/** A client that relays: what a server asks of it goes to the caller, and nothing is answered or repeated here. */
export function clientFor(sdk: ClientSdk, mode: VersionNegotiationMode): Client {
  return new sdk.Client(
    { name: 'ecliptic', version: VERSION },
    { capabilities: CAPABILITIES, versionNegotiation: { mode }, inputRequired: { autoFulfill: false } },
  );
}
