import type { MessageLine } from '../../src/http/dashboard/facts.js';
import type { AgentCard } from '../../src/mesh/schemas.js';
import type { AgentRow, LeaseLine, TaskRow, ToolRow } from '../../src/node/control/rows.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import { addressOf } from '../orrery/sky.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, Ago, deviceName, Id, Json, State } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { Facts, Section, Table } from '../parts/table.js';
import { href } from '../route.js';
import { lineKey } from '../store.js';
import { keyOf, node as own, useRead } from '../stream.js';
import { AGENT_TEXT } from '../text/agent.js';
import { TEXT } from '../text.js';
import { Line } from './messages.js';

const MESSAGES = 20;
const TASKS = 200;

/** One agent: what it is, who works for it, and what it did. */
export function Agent({ address }: { address: string }) {
  const { value: all, error } = useRead<readonly AgentRow[]>('agents');
  if (!all) return <Unread error={error} reading={AGENT_TEXT.loading} />;
  // The key of a node may be shortened.
  const agent = all.find((row) => addressOf(row) === address) ?? all.find((row) => addressOf(row).startsWith(address));
  return (
    <>
      <p>
        <a href={href('agents')}>{AGENT_TEXT.back}</a>
      </p>
      <Stale error={error} />
      {agent ? (
        <Found agent={agent} address={addressOf(agent)} />
      ) : (
        <Empty command={AGENT_TEXT.missingCommand}>{AGENT_TEXT.missing(address)}</Empty>
      )}
    </>
  );
}

function Found({ agent, address }: { agent: AgentRow; address: string }) {
  const { id, node, tier, sandbox, state, reason, fix, load, capabilities, description } = agent;
  const { value: leases = [] } = useRead<readonly LeaseLine[]>('leases');
  const full = node === null && own.value ? `${id}@${own.value.node}` : address;
  const held = leases.filter(({ holder }) => holder === full || holder === address);
  const facts = AGENT_TEXT.facts;
  const [command, ...others] = fix?.split(', ') ?? [];
  return (
    <article class={state === 'unstaffed' ? 'agent is-hollow' : 'agent'}>
      <h3>
        <span class="mono">{id}</span>
        {node !== null && <span class="dim"> {AGENT_TEXT.onNode(deviceName(node))}</span>}
      </h3>
      <Facts
        rows={[
          [
            facts.state,
            <>
              <State state={state} />
              {reason !== null && <span class="dim">: {reason}</span>}
            </>,
          ],
          [facts.tier, <span class="mono">L{tier}</span>],
          [facts.sandbox, sandbox],
          [facts.load, TEXT.agents.load(load.queued, load.working)],
          [facts.description, description],
          [facts.capabilities, capabilities.join(', ')],
          [facts.leases, held.map(({ repositoryName, glob }) => `${repositoryName}: ${glob}`).join(', ')],
          [facts.address, <span class="mono">{full}</span>],
        ]}
      />
      {state === 'unstaffed' && fix !== null && (
        <Section title={AGENT_TEXT.staff.title}>
          <div class="empty">
            <p>{AGENT_TEXT.staff.why}</p>
            <pre>{command}</pre>
            <p class="dim">{others.join(', ')}</p>
          </div>
        </Section>
      )}
      <Workers agent={agent} />
      <Tools address={address} />
      <Tasks id={id} address={address} />
      <Latest address={address} />
      <Card address={address} />
    </article>
  );
}

function Workers({ agent: { node, state, workers } }: { agent: AgentRow }) {
  const { value: providers = [] } = useRead<readonly ProviderRow[]>('providers');
  const text = AGENT_TEXT.workers;
  if (workers.length === 0) {
    return (
      <Section title={text.title}>
        <p class="dim">{node !== null ? text.remote : state === 'unstaffed' ? text.none : text.code}</p>
      </Section>
    );
  }
  const rows = node === null ? providers : [];
  return (
    <Section title={text.title}>
      <Table label={text.label} columns={text.columns}>
        {workers.map((worker) => {
          const row = rows.find((one) => one.id === worker.id);
          return (
            <tr key={worker.id}>
              <th scope="row" class="mono">
                {worker.id}
              </th>
              <td>{worker.type}</td>
              <td>
                <State state={worker.state} />
              </td>
              <td class="mono">{row && text.load(row.inFlight, row.concurrencyLimit)}</td>
              <td class="mono">{row?.completed}</td>
              <td class="mono">{row?.failed}</td>
              <td>{row?.lastCheck && <Ago at={Date.parse(row.lastCheck)} />}</td>
              <td class="why">{row?.message}</td>
            </tr>
          );
        })}
      </Table>
    </Section>
  );
}

function Tools({ address }: { address: string }) {
  const { value: tools = [] } = useRead<readonly ToolRow[]>('tools');
  const offered = tools.filter(({ agent }) => agent === address);
  return (
    <Section title={AGENT_TEXT.tools.title}>
      {offered.length === 0 ? (
        <p class="dim">{AGENT_TEXT.tools.none}</p>
      ) : (
        <Facts
          rows={offered.map(({ name, title, description }) => [
            name,
            <a key={name} href={href('tools', name)}>
              {title ?? description ?? name}
            </a>,
          ])}
        />
      )}
    </Section>
  );
}

function Tasks({ id, address }: { id: string; address: string }) {
  const { value: tasks = [], error } = useRead<readonly TaskRow[]>(keyOf('tasks', { limit: TASKS }));
  const names = new Set([id, address]);
  const text = AGENT_TEXT.tasks;
  const rows = tasks.filter(({ agent, caller }) => names.has(agent) || names.has(caller)).slice(0, MESSAGES);
  return (
    <Section title={text.title}>
      <Stale error={error} />
      {rows.length === 0 ? (
        <p class="dim">{text.none}</p>
      ) : (
        <Table label={text.label} columns={text.columns}>
          {rows.map((task) => {
            const isDoer = names.has(task.agent);
            return (
              <tr key={task.id}>
                <th scope="row">
                  <Id id={task.id} />
                </th>
                <td>
                  <State
                    state={task.state
                      .replace(/^TASK_STATE_/, '')
                      .replaceAll('_', ' ')
                      .toLowerCase()}
                  />
                </td>
                <td>{isDoer ? text.does : text.asked}</td>
                <td>
                  <AgentName address={isDoer ? task.caller : task.agent} />
                </td>
                <td class="why">{task.text}</td>
                <td>
                  <Ago at={task.createdAt} />
                </td>
              </tr>
            );
          })}
        </Table>
      )}
    </Section>
  );
}

function Latest({ address }: { address: string }) {
  const read = useRead<readonly MessageLine[]>(keyOf('messages', { agent: address, limit: MESSAGES }));
  const text = AGENT_TEXT.messages;
  const lines = [...(read.value ?? [])].reverse();
  return (
    <Section title={text.title}>
      <Stale error={read.error} />
      {lines.length === 0 ? (
        <p class="dim">{text.none}</p>
      ) : (
        <>
          <ol class="messages" aria-label={text.title}>
            {lines.map((line) => (
              <Line key={lineKey(line)} line={line} />
            ))}
          </ol>
          <p>
            <a href={href('messages', address)}>{text.threads}</a>
          </p>
        </>
      )}
    </Section>
  );
}

function Card({ address }: { address: string }) {
  const { value } = useRead<AgentCard>(keyOf('card', { id: address }));
  return <Section title={AGENT_TEXT.card}>{value && <Json value={value} label={AGENT_TEXT.card} />}</Section>;
}
