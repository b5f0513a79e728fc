import type { AgentView } from '../../src/http/dashboard/facts.js';
import { agents } from '../store.js';
import { STATE_MARKS, TEXT } from '../text.js';
import { Empty, StalePart } from './empty.js';

/** All agents, by tier: their states, their workers, and what an unstaffed one lacks. */
export function Agents() {
  const all = agents.value;
  if (!all) return <Empty>{TEXT.agents.loading}</Empty>;
  if (all.length === 0) {
    return (
      <Empty command={TEXT.agents.noneCommand}>
        {TEXT.agents.none} {TEXT.agents.noneHow}
      </Empty>
    );
  }
  const sorted = [...all].sort((a, b) => a.tier - b.tier || a.id.localeCompare(b.id));
  const unstaffed = all.filter(({ state }) => state === 'unstaffed').length;
  return (
    <>
      <StalePart part="agents" />
      <p class="dim">{TEXT.agents.count(all.length, unstaffed)}</p>
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

function Row({ agent }: { agent: AgentView }) {
  const { id, tier, node, sandbox, state, reason, fix, workers, load, description, capabilities } = agent;
  const [mark, tone] = STATE_MARKS[state] ?? ['○', 'dim'];
  const isUnstaffed = state === 'unstaffed';
  const none = isUnstaffed ? TEXT.agents.noWorker : TEXT.agents.code;
  const [agentColumn, tierColumn, stateColumn, workerColumn, loadColumn, whyColumn] = TEXT.agents.columns;
  return (
    <tr class={isUnstaffed ? 'is-hollow' : ''}>
      <th scope="row" data-column={agentColumn} title={[description, ...capabilities].filter(Boolean).join('\n')}>
        <span class="mono">{id}</span>
        {node !== null && <span class="dim"> {TEXT.agents.remote(node.slice(0, 8))}</span>}
        {sandbox !== null && <span class="dim"> {TEXT.agents.sandbox(sandbox)}</span>}
      </th>
      <td data-column={tierColumn} class="mono">
        L{tier}
      </td>
      <td data-column={stateColumn} class={`nowrap ${tone}`}>
        <span aria-hidden="true">{mark}</span> {state}
      </td>
      <td data-column={workerColumn}>
        {workers.length === 0
          ? node === null
            ? none
            : ''
          : workers.map(({ id: w, type }) => `${type} ${w}`).join(', ')}
      </td>
      <td data-column={loadColumn} class="mono nowrap">
        {TEXT.agents.load(load.queued, load.working)}
      </td>
      <td data-column={whyColumn}>
        {reason}
        {isUnstaffed && fix !== null && (
          <details>
            <summary class="dim">{TEXT.agents.staff}</summary>
            <code>{fix}</code>
          </details>
        )}
      </td>
    </tr>
  );
}
