import type { ProviderView } from '../../src/node/control/rows.js';
import type { ProviderChange } from '../../src/providers/adapter/events.js';
import type { LaneRow } from '../../src/providers/host/lanes.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import { Confirm } from '../parts/confirm.js';
import { Empty, Stale } from '../parts/empty.js';
import { Ago, Json, State } from '../parts/facts.js';
import { HealthStrip } from '../parts/health-strip.js';
import { Unread } from '../parts/read.js';
import { Crumb, Facts, Section, Table } from '../parts/table.js';
import { href } from '../route.js';
import { act, tell } from '../store.js';
import { keyOf, useRead } from '../stream.js';
import { PARTS_TEXT } from '../text/parts.js';
import { PROVIDERS_TEXT } from '../text/providers.js';
import { TEXT } from '../text.js';

/** Changes in the list of all providers. */
const SHOWN = 50;

/** The providers, their lanes and their changes; with an id, one provider. */
export function Providers({ rest }: { rest: string }) {
  return rest === '' ? <List /> : <Provider key={rest} id={rest} />;
}

/** The health of a ready provider; otherwise its phase says more. */
function stateOf({ phase, state }: ProviderRow): string {
  return phase === 'ready' ? state : phase;
}

function List() {
  const { value: all, error } = useRead<readonly ProviderRow[]>('providers');
  const { value: changes } = useRead<readonly ProviderChange[]>('provider.history');
  const { value: lanes } = useRead<readonly LaneRow[]>('lanes');
  return (
    <>
      {all ? <Stale error={error} /> : <Unread error={error} />}
      {all?.length === 0 && <Empty command={PROVIDERS_TEXT.noneCommand}>{PROVIDERS_TEXT.none}</Empty>}
      {all && all.length > 0 && (
        <Table columns={PROVIDERS_TEXT.columns} label={TEXT.places.providers}>
          {all.map((provider) => (
            <Row
              key={provider.id}
              provider={provider}
              memory={hostOf(lanes, provider)?.memoryBytes ?? null}
              changes={(changes ?? []).filter((one) => one.provider === provider.id)}
            />
          ))}
        </Table>
      )}
      {lanes && <Lanes lanes={lanes} />}
      {changes && <Changes changes={changes.slice(0, SHOWN)} />}
    </>
  );
}

function hostOf(lanes: readonly LaneRow[] | undefined, { id, laneId }: ProviderRow) {
  return lanes?.find(({ lane }) => lane === laneId)?.providers.find(({ provider }) => provider === id);
}

function Row({
  provider,
  memory,
  changes,
}: {
  provider: ProviderRow;
  memory: number | null;
  changes: readonly ProviderChange[];
}) {
  const { id, type, inFlight, concurrencyLimit, completed, failed, laneId, lastCheck, message } = provider;
  return (
    <tr>
      <th scope="row">
        <a class="mono" href={href('providers', id)}>
          {id}
        </a>{' '}
        <span class="dim block">
          {PROVIDERS_TEXT.where(type, laneId, memory === null ? null : PARTS_TEXT.bytes(memory))}
        </span>
      </th>
      <td>
        <State state={stateOf(provider)} />
      </td>
      <td class="nowrap">
        {PROVIDERS_TEXT.work(inFlight, concurrencyLimit)}
        <span class="dim block">{PROVIDERS_TEXT.ended(completed, failed)}</span>
      </td>
      <td>{lastCheck !== null && <Ago at={Date.parse(lastCheck)} />}</td>
      <td>
        <HealthStrip state={stateOf(provider)} changes={changes} />
      </td>
      <td class="why">{message}</td>
      <td>
        <Actions provider={provider} />
      </td>
    </tr>
  );
}

function Actions({ provider: { id, phase } }: { provider: ProviderRow }) {
  const restart = async () => {
    if (await act('provider.restart', { id })) tell(PROVIDERS_TEXT.restarted(id));
  };
  const drain = async () => {
    if (await act('provider.drain', { id })) tell(PROVIDERS_TEXT.drained(id));
  };
  return (
    <div class="actions">
      <Confirm label={PROVIDERS_TEXT.restart} question={PROVIDERS_TEXT.restartQuestion} act={restart} />
      {phase === 'ready' && (
        <Confirm label={PROVIDERS_TEXT.drain} question={PROVIDERS_TEXT.drainQuestion} act={drain} />
      )}
    </div>
  );
}

function Provider({ id }: { id: string }) {
  const { value: provider, error } = useRead<ProviderView>(keyOf('provider.show', { id }));
  const { value: changes } = useRead<readonly ProviderChange[]>(keyOf('provider.history', { id }));
  const { value: lanes } = useRead<readonly LaneRow[]>('lanes');
  return (
    <>
      <Crumb place="providers" title={id}>
        {provider && <State state={stateOf(provider)} />}
        {provider && <HealthStrip state={stateOf(provider)} changes={changes ?? []} />}
      </Crumb>
      {provider ? <Stale error={error} /> : <Unread error={error} />}
      {provider && <Detail provider={provider} lanes={lanes} />}
      {changes && <Changes changes={changes} />}
    </>
  );
}

function Detail({ provider, lanes }: { provider: ProviderView; lanes: readonly LaneRow[] | undefined }) {
  const { type, pool, laneId, phase, failureCount, lastCheck, message, priority, capabilities, about } = provider;
  const host = hostOf(lanes, provider);
  const names = PROVIDERS_TEXT.facts;
  return (
    <>
      <Facts
        rows={[
          [names.why, message],
          [names.phase, phase],
          [names.type, type],
          [names.pool, pool],
          [names.lane, laneId],
          [names.process, host?.pid === null || host === undefined ? null : String(host.pid)],
          [names.memory, typeof host?.memoryBytes === 'number' ? PARTS_TEXT.bytes(host.memoryBytes) : null],
          [names.crashes, host && String(host.crashes)],
          [
            names.work,
            `${PROVIDERS_TEXT.work(provider.inFlight, provider.concurrencyLimit)}, ${PROVIDERS_TEXT.ended(provider.completed, provider.failed)}`,
          ],
          [names.failures, String(failureCount)],
          [names.checked, lastCheck !== null && <Ago key="c" at={Date.parse(lastCheck)} />],
          [names.every, PARTS_TEXT.ms(provider.healthCheckIntervalMs)],
          [names.priority, String(priority)],
          [names.capabilities, capabilities.join(', ')],
        ]}
      />
      <div class="padded">
        <Actions provider={provider} />
      </div>
      {Object.keys(about).length > 0 && (
        <Section title={PROVIDERS_TEXT.about}>
          <Json value={about} open label={PARTS_TEXT.json} />
        </Section>
      )}
    </>
  );
}

function Lanes({ lanes }: { lanes: readonly LaneRow[] }) {
  const close = async (lane: string) => {
    if (await act('lanes.close', { lane })) tell(PROVIDERS_TEXT.closed(lane));
  };
  const open = async (lane: string) => {
    if (await act('lanes.open', { lane })) tell(PROVIDERS_TEXT.opened(lane));
  };
  return (
    <Section title={PROVIDERS_TEXT.lanes}>
      {lanes.length === 0 && (
        <p class="dim">
          {PROVIDERS_TEXT.noLanes} {PROVIDERS_TEXT.noLanesHow}
        </p>
      )}
      {lanes.length > 0 && (
        <Table columns={PROVIDERS_TEXT.laneColumns} label={PROVIDERS_TEXT.lanes}>
          {lanes.map(({ lane, folder, providers, closed }) => (
            <tr key={lane}>
              <th scope="row" class="mono">
                {lane}
              </th>
              <td>
                <State state={closed ? 'closed' : 'open'} />
              </td>
              <td>
                {providers.map(({ provider, pid, memoryBytes }) => (
                  <span key={provider} class="block">
                    {PROVIDERS_TEXT.process(provider, pid, memoryBytes === null ? null : PARTS_TEXT.bytes(memoryBytes))}
                  </span>
                ))}
              </td>
              <td class="mono why">{folder}</td>
              <td>
                {closed ? (
                  <button type="button" onClick={() => void open(lane)}>
                    {PROVIDERS_TEXT.open}
                  </button>
                ) : (
                  <Confirm
                    label={PROVIDERS_TEXT.close}
                    question={PROVIDERS_TEXT.closeQuestion}
                    act={() => close(lane)}
                  />
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

function Changes({ changes }: { changes: readonly ProviderChange[] }) {
  return (
    <Section title={PROVIDERS_TEXT.changes}>
      {changes.length === 0 && <p class="dim">{PROVIDERS_TEXT.noChanges}</p>}
      {changes.length > 0 && (
        <Table columns={PROVIDERS_TEXT.changeColumns} label={PROVIDERS_TEXT.changes}>
          {changes.map(({ at, provider, what, from, to, reason }, index) => (
            <tr key={`${at} ${index}`}>
              <td>
                <Ago at={at} />
              </td>
              <td class="mono">{provider}</td>
              <td>{PROVIDERS_TEXT.changed[what] ?? what}</td>
              <td class="nowrap">
                {from !== null && to !== null && <Change isHealth={what === 'health.changed'} from={from} to={to} />}
              </td>
              <td class="why">{reason}</td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

/** Of health, from state to state; of a failover, from provider to provider. */
function Change({ isHealth, from, to }: { isHealth: boolean; from: string; to: string }) {
  if (!isHealth) return <span class="mono">{`${from} → ${to}`}</span>;
  return (
    <>
      <State state={from} /> → <State state={to} />
    </>
  );
}
