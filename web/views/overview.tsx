import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { PeerRow } from '../../src/network/peers/network.js';
import type { AgentRow, LeaseLine } from '../../src/node/control/rows.js';
import { Orrery } from '../orrery/orrery.js';
import { type Sky, type Star, skyOf } from '../orrery/sky.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, State } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { messages, now, sampled } from '../store.js';
import { node, useRead } from '../stream.js';
import { OVERVIEW_TEXT } from '../text/overview.js';
import { TEXT } from '../text.js';

const asTable = signal(false);

/** All agents of all nodes: the orrery, or the same facts as a table. */
export function Overview() {
  const { value: agents, error } = useRead<readonly AgentRow[]>('agents');
  const { value: peers } = useRead<readonly PeerRow[]>('peers');
  const { value: leases } = useRead<readonly LeaseLine[]>('leases');
  const own = node.value;
  const sky = useMemo(
    () => skyOf({ own: own ?? { node: '', name: '' }, agents: agents ?? [], peers: peers ?? [], leases: leases ?? [] }),
    [own, agents, peers, leases],
  );
  useEffect(() => {
    const toggle = (event: KeyboardEvent) => {
      const { key, target, defaultPrevented, repeat } = event;
      const isTyping = target instanceof HTMLElement && ['TEXTAREA', 'INPUT', 'SELECT'].includes(target.tagName);
      if (key !== 't' || isTyping || defaultPrevented || repeat || event.ctrlKey || event.metaKey || event.altKey)
        return;
      asTable.value = !asTable.value;
    };
    addEventListener('keydown', toggle);
    return () => removeEventListener('keydown', toggle);
  }, []);
  if (!agents) return <Unread error={error} reading={OVERVIEW_TEXT.loading} />;
  if (agents.length === 0) {
    return (
      <Empty command={TEXT.agents.noneCommand}>
        {TEXT.agents.none} {TEXT.agents.noneHow}
      </Empty>
    );
  }
  const facts = factsOf(sky);
  return (
    <>
      <Stale error={error} />
      <div class="overview-head">
        <p class="dim">
          {facts}
          <Rate />
        </p>
        <button
          type="button"
          aria-keyshortcuts="t"
          onClick={() => {
            asTable.value = !asTable.value;
          }}
        >
          {asTable.value ? OVERVIEW_TEXT.picture : OVERVIEW_TEXT.table} <kbd>t</kbd>
        </button>
      </div>
      {asTable.value ? (
        <Table sky={sky} />
      ) : (
        <>
          <Orrery sky={sky} label={OVERVIEW_TEXT.label(facts)} />
          <Legend />
        </>
      )}
    </>
  );
}

function factsOf({ stars, nodes }: Sky): string {
  const working = stars.filter((star) => star.working > 0).length;
  const unstaffed = stars.filter(({ state }) => state === 'unstaffed').length;
  const unreachable = stars.filter(({ state }) => state === 'unreachable').length;
  const away = nodes.filter(({ connected }) => !connected).length;
  const counts = OVERVIEW_TEXT.facts(stars.length, working, unstaffed, unreachable);
  return `${counts} · ${OVERVIEW_TEXT.nodes(nodes.length, away)}`;
}

/** The true rate, also where the page gets a sample. */
function Rate() {
  const since = now.value - 1_000;
  const seen = (messages.value ?? []).filter(({ seq, at }) => seq === null && at > since && at <= now.value).length;
  const rate = sampled.value?.total ?? seen;
  return (
    <>
      {' '}
      · <span class="rate">{OVERVIEW_TEXT.rate(rate)}</span>
      {sampled.value && <span class="warn"> ({OVERVIEW_TEXT.sampled(sampled.value.shown)})</span>}
    </>
  );
}

function Legend() {
  return (
    <details class="legend dim">
      <summary>{OVERVIEW_TEXT.legendTitle}</summary>
      <dl>
        {OVERVIEW_TEXT.legend.map(([mark, meaning]) => (
          <div key={mark}>
            <dt>{mark}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

function Table({ sky: { stars, nodes } }: { sky: Sky }) {
  const names = new Map(nodes.map(({ key, name }) => [key, name]));
  return (
    <table class="agents" aria-label={OVERVIEW_TEXT.tableLabel}>
      <thead>
        <tr>
          {OVERVIEW_TEXT.columns.map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {stars.map((star) => (
          <Row key={star.address} star={star} node={star.node === '' ? OVERVIEW_TEXT.ownNode : names.get(star.node)!} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ star, node: on }: { star: Star; node: string }) {
  const { address, tier, state, workers, queued, working, sandbox, leases, health } = star;
  return (
    <tr class={health === 'hollow' ? 'is-hollow' : ''}>
      <th scope="row">
        <AgentName address={address} />
      </th>
      <td>{on}</td>
      <td class="mono">{OVERVIEW_TEXT.tier(tier)}</td>
      <td>
        <State state={state} />
      </td>
      <td>
        {workers.length === 0 ? (
          <span class="dim">{OVERVIEW_TEXT.noWorkers}</span>
        ) : (
          workers.map(({ id, type, state: condition }) => (
            <div key={id} class="nowrap">
              {type} <State state={condition} />
            </div>
          ))
        )}
      </td>
      <td class="mono nowrap">{OVERVIEW_TEXT.load(queued, working)}</td>
      <td>{sandbox}</td>
      <td title={leases.join('\n')}>{leases.length === 0 ? '' : OVERVIEW_TEXT.leases(leases.length)}</td>
    </tr>
  );
}
