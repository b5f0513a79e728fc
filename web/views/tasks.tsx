import { useState } from 'preact/hooks';
import type { TaskRow } from '../../src/node/control/rows.js';
import type { RunSummary } from '../../src/plans/run-records.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, Ago, Id, State } from '../parts/facts.js';
import { Choice, Field } from '../parts/form.js';
import { Unread } from '../parts/read.js';
import { Section, Table } from '../parts/table.js';
import { href } from '../route.js';
import { keyOf, useRead } from '../stream.js';
import { PARTS_TEXT } from '../text/parts.js';
import { stateWord, TASKS_TEXT } from '../text/tasks.js';
import { TaskView } from './task.js';

const PAGE = 100;
const RUNS = 10;
const STATES = ['submitted', 'working', 'input-required', 'completed', 'failed', 'canceled', 'rejected'] as const;
const KINDS = Object.entries(TASKS_TEXT.kinds);

/** Tasks of every kind and runs of plans; with an id, one task. */
export function Tasks({ rest }: { rest: string }) {
  if (rest !== '') return <TaskView key={rest} id={rest} />;
  return (
    <>
      <Runs />
      <TaskList />
    </>
  );
}

function Runs() {
  const [limit, setLimit] = useState(RUNS);
  const { value: runs, error } = useRead<readonly RunSummary[]>(keyOf('runs', { limit }));
  return (
    <Section title={TASKS_TEXT.runs}>
      <Stale error={runs && error} />
      {!runs && <Unread error={error} />}
      {runs?.length === 0 && <Empty command={TASKS_TEXT.noRunsCommand}>{TASKS_TEXT.noRuns}</Empty>}
      {runs && runs.length > 0 && (
        <Table columns={TASKS_TEXT.runColumns} label={TASKS_TEXT.runs}>
          {runs.map(({ id, name, status, agent, updatedAt }) => (
            <tr key={id}>
              <td>
                <State state={status} />
              </td>
              <th scope="row">
                <a href={href('runs', id)}>{name}</a>
              </th>
              <td>
                <AgentName address={agent} />
              </td>
              <td>
                <Ago at={updatedAt} />
              </td>
              <td>
                <Id id={id} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {runs?.length === limit && <More more={() => setLimit(limit * 4)} />}
    </Section>
  );
}

function TaskList() {
  const [kind, setKind] = useState('');
  const [state, setState] = useState('');
  const [limit, setLimit] = useState(PAGE);
  const key = keyOf('tasks', { kind: kind || undefined, state: state || undefined, limit });
  const { value: tasks, error } = useRead<readonly TaskRow[]>(key);
  const isFiltered = kind !== '' || state !== '';
  return (
    <Section title={TASKS_TEXT.tasks}>
      <Stale error={tasks && error} />
      <p class="filters">
        <Field label={TASKS_TEXT.state} inline>
          <Choice
            value={state}
            options={[['', PARTS_TEXT.all], ...STATES.map((one) => [one, one.replace('-', ' ')] as const)]}
            change={setState}
          />
        </Field>
        <Field label={TASKS_TEXT.kind} inline>
          <Choice value={kind} options={[['', PARTS_TEXT.all], ...KINDS]} change={setKind} />
        </Field>
      </p>
      {!tasks && <Unread error={error} />}
      {tasks?.length === 0 &&
        (isFiltered ? (
          <Empty>{TASKS_TEXT.noMatch}</Empty>
        ) : (
          <Empty command={TASKS_TEXT.noneCommand}>{TASKS_TEXT.none}</Empty>
        ))}
      {tasks && tasks.length > 0 && (
        <Table columns={TASKS_TEXT.columns} label={TASKS_TEXT.tasks}>
          {tasks.map((task) => (
            <Row key={task.id} task={task} />
          ))}
        </Table>
      )}
      {tasks?.length === limit && <More more={() => setLimit(limit * 4)} />}
    </Section>
  );
}

function Row({ task }: { task: TaskRow }) {
  const { id, kind, state, caller, agent, text, createdAt, updatedAt } = task;
  const [swarm] = id.split('/');
  return (
    <tr>
      <td>
        <State state={stateWord(state)} />
      </td>
      <th scope="row" class="wide">
        <a class="excerpt" href={kind === 'swarm' ? href('swarms', swarm) : href('tasks', id)}>
          {text || TASKS_TEXT.noText}
        </a>
      </th>
      <td class="nowrap">
        <AgentName address={caller} /> → {agent === '' ? PARTS_TEXT.none : <AgentName address={agent} />}
      </td>
      <td>{TASKS_TEXT.kinds[kind]}</td>
      <td>
        <Ago at={updatedAt === null ? createdAt : Date.parse(updatedAt)} />
      </td>
      <td>
        <Id id={id} />
      </td>
    </tr>
  );
}

/** Shows more of a list that was cut. */
export function More({ more }: { more: () => void }) {
  return (
    <p class="actions">
      <button type="button" onClick={more}>
        {PARTS_TEXT.more}
      </button>
    </p>
  );
}
