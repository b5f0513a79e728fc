import type { ProviderRow } from '../../providers/registry/registered-provider.js';
import { DEFAULT_CREDENTIAL, DEFAULT_WORKSPACE } from '../../system/secrets/credential-source.js';
import { deciderOf } from '../devices/answer-record.js';
import { type ControlContext, completeId, type Handlers } from './context.js';
import type { ProviderLine, ProviderView } from './rows.js';

/** The owner's operations on approvals, lanes, providers and credentials. Secret values go in, and never come out. */
export function operationMethods({
  node,
  approvals,
  lanes,
  worktrees,
  credentials,
}: Pick<ControlContext, 'node' | 'approvals' | 'lanes' | 'worktrees' | 'credentials'>) {
  const { providers } = node;
  const line = (row: ProviderRow): ProviderLine => {
    const { jail } = providers.describe(row.id);
    // The program of an MCP server is known to its lane only.
    const hosts = lanes.rows.flatMap((lane) => lane.providers);
    const host = hosts.find(({ provider }) => provider === row.id);
    return { ...row, jail: typeof jail === 'string' ? jail : (host?.jail ?? null) };
  };
  const view = (id: string): ProviderView => ({ ...line(providers.get(id)), about: providers.describe(id) });
  const workspaceId = (given: string) => completeId(given, worktrees.rows);
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
    workspaces: () => worktrees.rows,
    workspace: ({ id, diff }) => worktrees.show(workspaceId(id), { diff }),
    'workspace.merge': ({ id, into }) => worktrees.merge(workspaceId(id), into),
    'workspace.drop': ({ id, force }) => worktrees.drop(workspaceId(id), { force }),
    providers: () => providers.list().map(line),
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
