import type { A2ALogEvent, AgentCard } from '../../mesh/schemas.js';
import type { Finding } from '../../network/peers/network.js';
import type { ProviderEvents } from '../../providers/adapter/events.js';
import type { ProviderRow } from '../../providers/registry/registered-provider.js';
import type { ProviderRegistry } from '../../providers/registry/registry.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** A provider in full. */
export interface ProviderView extends ProviderRow {
  /** What its adapter tells of it: endpoints, versions, … */
  readonly about: Readonly<Record<string, unknown>>;
}

interface Providing {
  readonly providers: ProviderRegistry;
  readonly providerEvents: ProviderEvents;
}

/** The owner's operations on providers. */
export function providerMethods({ providers, providerEvents }: Providing): Readonly<Record<string, ControlMethod>> {
  const view = (id: string): ProviderView => ({ ...providers.get(id), about: providers.describe(id) });
  return {
    providers(): ProviderRow[] {
      return providers.list();
    },
    'provider.show'(params) {
      return view(new Params(params).string('id'));
    },
    async 'provider.restart'(params) {
      const id = new Params(params).string('id');
      await providers.restart(id);
      return view(id);
    },
    async 'provider.drain'(params) {
      const id = new Params(params).string('id');
      await providers.drain(id);
      return view(id);
    },
    /** What providers did in a conversation. */
    'thread.events'(params): A2ALogEvent[] {
      return providerEvents.of(new Params(params).string('id'));
    },
  };
}

/** What a diagnosis says of this node's agents, besides their providers: modules that failed, roles without a worker. */
export function staffingFindings(cards: readonly AgentCard[], providers: ProviderRegistry): Finding[] {
  const provided = new Set(providers.list().map(({ id }) => id));
  const unwell = cards.filter(({ id, status }) => !provided.has(id) && status?.state === 'unavailable');
  const unstaffed = cards.filter(({ status }) => status?.state === 'unstaffed').length;
  return [
    ...unwell.map(({ id, status }): Finding => ({ level: 'problem', text: `agent "${id}": ${status!.reason}` })),
    ...(unstaffed === 0 ? [] : [{ level: 'ok', text: unstaffedText(unstaffed) } as const]),
  ];
}

/** What a diagnosis says of providers. */
export function providerFindings(providers: ProviderRegistry): Finding[] {
  return providers.list().map(({ id, type, state, phase, message }): Finding => {
    const provider = `provider "${id}" (${type})`;
    if (state === 'starting') return { level: 'warning', text: `${provider} is starting` };
    if (state === 'healthy')
      return {
        level: phase === 'ready' ? 'ok' : 'problem',
        text: `${provider} is ${phase === 'ready' ? 'healthy' : phase}`,
      };
    return { level: 'problem', text: `${provider} is ${state}${message === null ? '' : `: ${message}`}` };
  });
}

function unstaffedText(count: number): string {
  if (count === 1) return '1 agent is unstaffed: it refuses requests and tasks';
  return `${count} agents are unstaffed: they refuse requests and tasks`;
}
