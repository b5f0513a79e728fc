import { EclipticError } from '../../runtime/errors.js';
import type { AgentCard } from '../protocol/types.js';
import { PROTOCOL_VERSIONS, type ProtocolVersion, wireVersion } from '../protocol/version.js';

export type ClientBinding = 'JSONRPC' | 'HTTP+JSON' | 'simple';

/** How an agent is spoken with. */
export type ChosenInterface =
  | {
      readonly binding: 'JSONRPC' | 'HTTP+JSON';
      readonly version: ProtocolVersion;
      readonly url: string;
      readonly tenant: string | undefined;
    }
  | { readonly binding: 'simple' };

export interface InterfaceWish {
  /** Speak in this way or not at all. */
  readonly binding?: ClientBinding | undefined;
  readonly version?: ProtocolVersion | undefined;
}

/**
 * The best of what a card offers: the newest version that both speak, in the card's own order; an agent that declares no
 * version of the protocol has the simple routes.
 */
export function chooseInterface(card: AgentCard, { binding, version }: InterfaceWish = {}): ChosenInterface {
  const offered = card.supportedInterfaces.flatMap((one) => {
    const spoken = PROTOCOL_VERSIONS.find((known) => known === wireVersion(one.protocolVersion));
    const { protocolBinding, url, tenant } = one;
    if (spoken === undefined || (protocolBinding !== 'JSONRPC' && protocolBinding !== 'HTTP+JSON')) return [];
    return [{ binding: protocolBinding, version: spoken, url, tenant } as const];
  });
  const wanted = offered.filter(
    (one) => (binding === undefined || one.binding === binding) && (version === undefined || one.version === version),
  );
  // 0.3's HTTP binding was never spelled out; its JSON-RPC is understood everywhere.
  const order = (one: (typeof offered)[number]) => (one.version === '1.0' ? 0 : one.binding === 'JSONRPC' ? 1 : 2);
  const [best] = wanted.toSorted((a, b) => order(a) - order(b));
  if (best) return best;
  if (binding === 'simple' || (card.supportedInterfaces.length === 0 && binding === undefined)) {
    return { binding: 'simple' };
  }
  throw new EclipticError('VERSION_NOT_SUPPORTED', `${card.name} offers no interface that is spoken here`, {
    offered: card.supportedInterfaces.map((one) => `${one.protocolBinding} ${one.protocolVersion}`),
    supported: PROTOCOL_VERSIONS,
  });
}
