import type { DashboardSource } from '../../http/dashboard/facts.js';
import { joinAddress } from '../../mesh/address.js';
import { EclipticError } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import { checkParams, type Method, type TailEvent } from './api.js';
import type { ControlContext, Handlers } from './context.js';
import { toolRows } from './mcp-methods.js';
import { routed } from './message-lines.js';
import type { CallContext } from './server.js';

type Handler = (params: unknown, context: CallContext<unknown>) => unknown;

/** The operations that the commands use, for the page. */
export function dashboardSource(context: ControlContext, on: Handlers): DashboardSource {
  const { node } = context;
  const { registry, network, mcp } = node;
  const calling = (signal: AbortSignal, emit: (event: never) => void = () => {}): CallContext<never> => {
    return { emit, signal, drained: () => Promise.resolve() };
  };
  return {
    node: () => ({ node: registry.nodeKey ?? '', name: network?.name ?? '', version: VERSION }),
    async run(name, params, signal, viewer) {
      if (viewer) {
        if (name === 'tools' && params.as === undefined) return toolRows(mcp, viewer);
        if (name === 'agents') {
          const rows = await on.agents(checkParams('agents', params), calling(signal));
          return rows.filter(({ id, node: at }) => mcp.mayUse(viewer, at === null ? id : joinAddress(id, at)));
        }
        throw new EclipticError('SCOPE_REQUIRED', 'only the owner of the node may do this', { scope: 'owner' });
      }
      const method = name as Method;
      return (on[method] as Handler)(checkParams(method, params), calling(signal) as CallContext<unknown>);
    },
    routed: () => node.observability.decisions,
    follow(each, signal) {
      const emit = (event: TailEvent) => {
        if (event.type === 'routing-decision') each(routed(event));
      };
      void on.tail({ messages: true }, { ...calling(signal), emit });
    },
  };
}
