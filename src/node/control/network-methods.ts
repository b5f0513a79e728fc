import type { Network } from '../../network/peers/network.js';
import { EclipticError } from '../../runtime/errors.js';
import type { ControlContext, Handlers } from './context.js';
import { connectionFindings, providerFindings, staffingFindings, storeFindings, upstreamFindings } from './findings.js';

/** The owner's operations on the mesh that the node belongs to, and the diagnosis of the whole node. */
export function networkMethods({ node, gateway, upstreams, agentFindings }: ControlContext) {
  const network = (): Network => {
    if (node.network) return node.network;
    throw new EclipticError('NO_MESH', 'this node was started without a network');
  };
  const access = () => {
    if (node.brokerAccess) return node.brokerAccess;
    throw new EclipticError('INVALID_CONFIG', 'this node does not use NATS: ecliptic up --nats URL');
  };
  return {
    invite: ({ tiers, sandboxes, ...options }) =>
      network().invite({ tiers: tiers && [...tiers], sandboxes: sandboxes && [...sandboxes], ...options }),
    join: ({ code }, { signal }) => network().join(code, signal),
    leave(_params, { emit }) {
      if (network().joined) emit({ leaving: true });
      return network().leave();
    },
    peers: () => network().list(),
    'peers.remove'({ node: key }) {
      network().remove(key);
    },
    /** Members, this node, and nodes that are to join: one that was removed, or never proved its membership, is not among them. */
    'nats.users'() {
      const members = new Set([
        node.registry.nodeKey,
        ...network()
          .list()
          .map((row) => row.node),
      ]);
      const { mesh, users } = access().users();
      const known = users.filter((user) => members.has(user.node));
      const isMore = (user: { node: string }) => !members.has(user.node) && !network().hasRemoved(user.node);
      return { mesh, users: [...known, ...access().allowed().filter(isMore)] };
    },
    'nats.allow': (user) => access().allow(user),
    async doctor(_params, { emit }) {
      const found = [
        ...storeFindings(await node.readiness()),
        ...network().diagnose(),
        ...(node.mail?.diagnose() ?? []),
        ...upstreamFindings(upstreams),
        ...providerFindings(node.providers),
        ...staffingFindings(node.registry.getLocalCards(), node.providers),
        ...agentFindings(),
        ...connectionFindings(gateway.connections),
      ];
      const late = found.filter((finding) => finding instanceof Promise);
      for (const finding of found) if (!(finding instanceof Promise)) emit(finding);
      if (late.length > 0) emit({ probing: late.length });
      for (const finding of late) void finding.then(emit);
      const all = await Promise.all(found);
      return { findings: all, healthy: all.every(({ level }) => level !== 'problem') };
    },
  } satisfies Partial<Handlers>;
}
