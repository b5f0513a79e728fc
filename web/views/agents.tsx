import type { AgentRow } from '../../src/node/control/rows.js';
import { addressOf } from '../orrery/sky.js';
import { Empty, Stale } from '../parts/empty.js';
import { deviceName, ownAddress, State } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { href } from '../route.js';
import { useRead } from '../stream.js';
import { SEND_TEXT } from '../text/send.js';
import { TEXT } from '../text.js';
import { Agent } from './agent.js';
import { sendAddress } from './send.js';

const NONE: Readonly<Record<string, string>> = { unstaffed: TEXT.agents.noWorker, tools: TEXT.agents.tools };

/** All agents, or the one of the address. */
export function Agents({ rest }: { rest: string }) {
  return rest === '' ? <All /> : <Agent key={rest} address={ownAddress(rest)} />;
}

/** All agents, by tier: their states, their workers, and what an unstaffed one lacks. */
function All() {
  const { value: all, error } = useRead<readonly AgentRow[]>('agents');
  if (!all) return <Unread error={error} reading={TEXT.agents.loading} />;
  if (all.length === 0) {
    return (
      <Empty command={TEXT.agents.noneCommand}>
        {TEXT.agents.none} {TEXT.agents.noneHow}
      </Empty>
    );
  }
  const sorted = [...all].sort((a, b) => a.tier - b.tier || a.id.localeCompare(b.id));
  const unstaffed = all.filter(({ state }) => state === 'unstaffed').length;
  const unreachable = all.filter(({ state }) => state === 'unreachable').length;
  return (
    <>
      <Stale error={error} />
      <p class="dim">{TEXT.agents.count(all.length, unstaffed, unreachable)}</p>
      <table class="agents">
        <thead>
          <tr>
            {TEXT.agents.columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((agent) => (
            <Row key={`${agent.id}@${agent.node}`} agent={agent} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function Row({ agent }: { agent: AgentRow }) {
  const { id, tier, node, sandbox, state, reason, fix, workers, load, description, capabilities } = agent;
  const isUnstaffed = state === 'unstaffed';
  const none = node !== null ? '' : (NONE[state] ?? TEXT.agents.code);
  const [command] = fix?.split(', ') ?? [];
  return (
    <tr class={isUnstaffed ? 'is-hollow' : ''}>
      <th scope="row" title={[description, ...capabilities].filter(Boolean).join('\n')}>
        <a class="mono" href={href('agents', addressOf(agent))}>
          {id}
        </a>
        {node !== null && <span class="dim"> {TEXT.agents.remote(deviceName(node))}</span>}
        {sandbox !== null && <span class="dim"> {TEXT.agents.sandbox(sandbox)}</span>}{' '}
        <a class="quiet" href={sendAddress({ to: node === null ? id : `${id}@${node}` })}>
          {SEND_TEXT.send}
        </a>
      </th>
      <td class="mono">L{tier}</td>
      <td>
        <State state={state} />
      </td>
      <td>{workers.map(({ id: worker, type }) => (worker === id ? type : `${type} ${worker}`)).join(', ') || none}</td>
      <td class="mono nowrap">{TEXT.agents.load(load.queued, load.working)}</td>
      <td class="why">
        {reason}
        {isUnstaffed && fix !== null && (
          <details>
            <summary title={TEXT.agents.staff}>
              <code>{command}</code>
            </summary>
            <code>{fix}</code>
          </details>
        )}
      </td>
    </tr>
  );
}
