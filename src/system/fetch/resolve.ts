import { lookup } from 'node:dns/promises';
import { addressKind } from './address-kind.js';
import type { AllowList } from './allow-list.js';
import { causeOf, failed, refused } from './fetch-errors.js';
import { parseIpAddress } from './ip-address.js';
import type { Target } from './target.js';

/** All addresses of a name. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/** The system's resolver, so that `/etc/hosts` counts too. */
export const systemResolve: Resolve = async (host) =>
  (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);

/**
 * The addresses to connect to, asked for once; whoever connects uses these and asks nobody again, so that a name cannot
 * mean one thing to the check and another to the connection. One address that is not allowed spoils all.
 */
export async function resolveTarget(target: Target, allow: AllowList, resolve: Resolve): Promise<readonly string[]> {
  const { origin } = target.url;
  if (target.isLocalName && allow.isEmpty) throw localName(origin);
  const addresses = target.isAddress ? [target.host] : await ask(target, resolve);
  for (const text of addresses) {
    const address = parseIpAddress(text);
    if (!address) throw failed({ origin, cause: 'ENOTFOUND', sent: false });
    const kind = addressKind(address);
    if ((!kind && !target.isLocalName) || allow.allows(target, address, kind)) continue;
    // The address itself is not told: what a private name means is none of the asker's business.
    if (kind) throw refused('address', `${origin} may not be fetched: its address is ${kind}`, { origin, kind });
    throw localName(origin);
  }
  return addresses;
}

async function ask(target: Target, resolve: Resolve): Promise<readonly string[]> {
  const { origin } = target.url;
  let addresses: readonly string[];
  try {
    addresses = await resolve(target.url.hostname);
  } catch (error) {
    throw failed({ origin, cause: causeOf(error), sent: false });
  }
  if (addresses.length === 0) throw failed({ origin, cause: 'ENOTFOUND', sent: false });
  return addresses;
}

function localName(origin: string) {
  return refused('name', `${origin} may not be fetched: its name is a local one`, { origin });
}
