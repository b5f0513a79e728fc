import { useState } from 'preact/hooks';
import type { AgentRow, SwarmDetail, SwarmRow } from '../../src/node/control/rows.js';
import type { SwarmSubTask } from '../../src/work/swarm/swarm-session.js';
import { Confirm } from '../parts/confirm.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, Ago, Id, Json, State } from '../parts/facts.js';
import { Choice, Field, Form } from '../parts/form.js';
import { Unread } from '../parts/read.js';
import { Crumb, Facts, Section, Table } from '../parts/table.js';
import { go, href } from '../route.js';
import { act, tell } from '../store.js';
import { keyOf, useRead } from '../stream.js';
import { PARTS_TEXT } from '../text/parts.js';
import { SWARMS_TEXT } from '../text/swarms.js';
import { TEXT } from '../text.js';

const OVER = new Set<string>(['completed', 'failed']);

/** Swarms that agents of this node take part in; with an id, the board of one. */
export function Swarms({ rest }: { rest: string }) {
  return rest === '' ? <List /> : <Swarm key={rest} id={rest} />;
}

function List() {
  const { value: swarms, error } = useRead<readonly SwarmRow[]>('swarms');
  return (
    <>
      {swarms ? <Stale error={error} /> : <Unread error={error} />}
      {swarms?.length === 0 && <Empty command={SWARMS_TEXT.noneCommand}>{SWARMS_TEXT.none}</Empty>}
      {swarms && swarms.length > 0 && (
        <Table columns={SWARMS_TEXT.columns} label={TEXT.places.swarms}>
          {swarms.map((swarm) => (
            <Row key={swarm.id} swarm={swarm} />
          ))}
        </Table>
      )}
      <Start />
    </>
  );
}

function Row({ swarm }: { swarm: SwarmRow }) {
  const { id, task, status, arbiter, epoch, counts, participants, createdAt } = swarm;
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return (
    <tr>
      <td>
        <State state={status} />
      </td>
      <th scope="row" class="wide">
        <a class="excerpt" href={href('swarms', id)}>
          {task}
        </a>
      </th>
      <td class="nowrap">
        {arbiter !== '' && <AgentName address={arbiter} />} <span class="dim">{SWARMS_TEXT.term(epoch)}</span>
      </td>
      <td class="nowrap">
        {SWARMS_TEXT.counts(counts.completed, all)}
        {counts.failed > 0 && <span class="bad">, {SWARMS_TEXT.failed(counts.failed)}</span>}
      </td>
      <td class="mono">{participants.length}</td>
      <td>
        <Ago at={createdAt} />
      </td>
      <td>
        <Id id={id} />
      </td>
    </tr>
  );
}

function Swarm({ id }: { id: string }) {
  const { value: swarm, error } = useRead<SwarmDetail>(keyOf('swarm', { id }));
  return (
    <>
      <Crumb place="swarms">
        {swarm && <State state={swarm.status} />}
        <Id id={swarm?.id ?? id} />
      </Crumb>
      {swarm ? <Stale error={error} /> : <Unread error={error} />}
      {swarm && <Detail swarm={swarm} />}
    </>
  );
}

function Detail({ swarm }: { swarm: SwarmDetail }) {
  const { id, task, status, arbiter, epoch, confirmed, creator, participants, standby, createdAt } = swarm;
  const { retries, lateResults, reason, escalations, sharedState, subTasks } = swarm;
  const names = SWARMS_TEXT.facts;
  const cancel = async () => {
    if ((await act('swarm.cancel', { id })) !== undefined) tell(SWARMS_TEXT.canceled);
  };
  return (
    <>
      <p class="said padded">{task}</p>
      {!confirmed && !OVER.has(status) && (
        <p class="warn" role="status">
          <span aria-hidden="true">◌</span> {SWARMS_TEXT.unconfirmed}
        </p>
      )}
      <Facts
        rows={[
          [
            names.arbiter,
            arbiter !== '' && (
              <>
                <AgentName key="a" address={arbiter} /> <span class="dim">{SWARMS_TEXT.term(epoch)}</span>
              </>
            ),
          ],
          [names.creator, <AgentName key="c" address={creator} />],
          [names.members, <Names key="m" ids={participants} />],
          [names.standby, standby.length > 0 && <Names key="b" ids={standby} />],
          [names.started, <Ago key="t" at={createdAt} />],
          [names.retries, String(retries)],
          [names.late, lateResults > 0 ? String(lateResults) : null],
          [names.reason, reason],
        ]}
      />
      {!OVER.has(status) && (
        <div class="actions padded">
          <Confirm label={SWARMS_TEXT.cancel} question={SWARMS_TEXT.cancelQuestion} act={cancel} />
        </div>
      )}
      <section class="board" aria-label={SWARMS_TEXT.boardLabel}>
        {SWARMS_TEXT.board.map((state) => (
          <Column key={state} state={state} all={subTasks.filter((one) => one.status === state)} />
        ))}
      </section>
      {escalations.length > 0 && (
        <Section title={SWARMS_TEXT.escalations}>
          <ol>
            {escalations.map(({ kind, subTask, reason: why }, at) => (
              <li key={at} class="warn padded">
                <span aria-hidden="true">▲</span> {kind} <span class="mono">{subTask}</span> {why}
              </li>
            ))}
          </ol>
        </Section>
      )}
      <Section title={SWARMS_TEXT.shared}>
        {Object.keys(sharedState).length === 0 ? (
          <p class="dim">{SWARMS_TEXT.noShared}</p>
        ) : (
          <Json value={sharedState} open label={PARTS_TEXT.json} />
        )}
        <p>
          <a href={href('documents', `swarm-${id}`)}>{SWARMS_TEXT.document}</a>
        </p>
      </Section>
    </>
  );
}

function Names({ ids }: { ids: readonly string[] }) {
  return (
    <>
      {ids.map((id, at) => (
        <span key={id} class="nowrap">
          {at > 0 && ', '}
          <AgentName address={id} />
        </span>
      ))}
    </>
  );
}

function Column({ state, all }: { state: string; all: readonly SwarmSubTask[] }) {
  return (
    <section>
      <h3>
        <State state={state} /> <span class="dim mono">{all.length}</span>
      </h3>
      {all.length === 0 && <p class="dim">{SWARMS_TEXT.empty}</p>}
      <ol>
        {all.map((one) => (
          <Card key={one.id} subTask={one} />
        ))}
      </ol>
    </section>
  );
}

function Card({ subTask }: { subTask: SwarmSubTask }) {
  const { id, description, assignedAgent, dependsOn, attempts, reason, result, unconfirmed, progress, usage } = subTask;
  return (
    <li class="card">
      <p class="excerpt" title={description}>
        <span class="mono dim">{id}</span> {description}
      </p>
      <p class="dim">
        {assignedAgent !== '' && <AgentName address={assignedAgent} />}{' '}
        {attempts === 0 ? SWARMS_TEXT.notLeased : SWARMS_TEXT.attempt(attempts)}
        {dependsOn.length > 0 && `, ${SWARMS_TEXT.after(dependsOn.join(', '))}`}
        {unconfirmed && `, ${SWARMS_TEXT.unsettled}`}
      </p>
      {progress !== undefined && result === undefined && (
        <p class="mono excerpt">{typeof progress === 'string' ? progress : JSON.stringify(progress)}</p>
      )}
      {reason !== undefined && <p class="bad">{reason}</p>}
      {result !== undefined && <Json value={result} label={SWARMS_TEXT.result} />}
      {usage && <p class="dim">{PARTS_TEXT.usage(usage)}</p>}
    </li>
  );
}

function Start() {
  const { value: agents } = useRead<readonly AgentRow[]>('agents');
  const own = (agents ?? []).filter(({ node }) => node === null).map(({ id }) => id);
  const [as, setAs] = useState('sun');
  const [task, setTask] = useState('');
  const [capabilities, setCapabilities] = useState('');
  const [plan, setPlan] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    if (task.trim() === '' || busy) return;
    setBusy(true);
    const names = capabilities.split(',').map((one) => one.trim());
    const swarm = await act<SwarmRow>('swarm.start', {
      ...{ task, as, capabilities: names.filter((one) => one !== '') },
      ...(plan.trim() !== '' && { plan }),
    });
    setBusy(false);
    if (!swarm) return;
    tell(SWARMS_TEXT.started);
    go('swarms', swarm.id);
  };
  return (
    <Section title={SWARMS_TEXT.start}>
      <Form label={SWARMS_TEXT.start} busy={busy} submit={() => void submit()} button={SWARMS_TEXT.start}>
        <Field label={SWARMS_TEXT.task} hint={SWARMS_TEXT.taskHint}>
          <textarea rows={2} value={task} onInput={(event) => setTask(event.currentTarget.value)} />
        </Field>
        <div class="side-by-side">
          <Field label={SWARMS_TEXT.as}>
            <Choice value={as} options={[...new Set(['sun', ...own])].map((id) => [id, id])} change={setAs} />
          </Field>
          <Field label={SWARMS_TEXT.capabilities} hint={SWARMS_TEXT.capabilitiesHint}>
            <input value={capabilities} onInput={(event) => setCapabilities(event.currentTarget.value)} />
          </Field>
        </div>
        <Field label={SWARMS_TEXT.plan} hint={SWARMS_TEXT.planHint}>
          <textarea rows={2} class="mono" value={plan} onInput={(event) => setPlan(event.currentTarget.value)} />
        </Field>
      </Form>
    </Section>
  );
}
