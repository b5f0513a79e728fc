import { DEFAULT_CREDENTIAL, DEFAULT_WORKSPACE } from '../../system/secrets/credential-source.js';
import { deciderOf } from '../devices/answer-record.js';
import { type ControlContext, completeId, type Handlers } from './context.js';
import type { ProviderView } from './rows.js';

/** The owner's operations on approvals, lanes, providers and credentials. Secret values go in, and never come out. */
export function operationMethods({
  node,
  approvals,
  lanes,
  credentials,
}: Pick<ControlContext, 'node' | 'approvals' | 'lanes' | 'credentials'>) {
  const { providers } = node;
  const view = (id: string): ProviderView => ({ ...providers.get(id), about: providers.describe(id) });
  const place = ({ provider, name, workspace }: { provider: string; name?: string; workspace?: string }) => {
    return { provider, workspace: workspace ?? DEFAULT_WORKSPACE, name: name ?? DEFAULT_CREDENTIAL };
  };
  return {
    approvals: ({ all }) => (all ? approvals.items : approvals.waiting),
    'approvals.decide'({ verdict, ids = [] }, { device }) {
      return approvals.decide(verdict, deciderOf(device), ...ids.map((id) => completeId(id, approvals.items)));
    },
    lanes: () => lanes.rows,
    async 'lanes.close'({ lane }) {
      await Promise.all([lanes.close(lane), providers.closeLane(lane)]);
      return { lane };
    },
    async 'lanes.open'({ lane }) {
      await lanes.reopen(lane);
      return { lane };
    },
    providers: () => providers.list(),
    'provider.show': ({ id }) => view(id),
    'provider.history': ({ id }) => node.providerEvents.changes(id),
    async 'provider.restart'({ id }) {
      await providers.restart(id);
      return view(id);
    },
    async 'provider.drain'({ id }) {
      await providers.drain(id);
      return view(id);
    },
    'credentials.set': ({ value, ...which }) => credentials.set(place(which), value),
    'credentials.rotate': ({ value, graceMs, ...which }) => credentials.rotate(place(which), value, graceMs),
    'credentials.revoke': (which) => credentials.revoke(place(which)),
    'credentials.list': ({ provider, workspace }) => credentials.list(provider, workspace),
  } satisfies Partial<Handlers>;
}
