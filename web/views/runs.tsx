import type { RunView, TaskView } from '../../src/plans/run-news.js';
import type { Usage } from '../../src/work/usage.js';
import { Confirm } from '../parts/confirm.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, Ago, Id, Json, State } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { Crumb, Facts, Table } from '../parts/table.js';
import { href } from '../route.js';
import { act, tell } from '../store.js';
import { keyOf, useRead } from '../stream.js';
import { PARTS_TEXT } from '../text/parts.js';
import { TASKS_TEXT } from '../text/tasks.js';

const RUN_TEXT = TASKS_TEXT.run;

/** One run of a plan with its tasks. */
export function Runs({ rest: id }: { rest: string }) {
  const { value: run, error } = useRead<RunView>(keyOf('run', { id }));
  return (
    <>
      <Crumb place="tasks" title={run?.name}>
        {run && <State state={run.status} />}
        <Id id={run?.id ?? id} />
      </Crumb>
      {run ? <Stale error={error} /> : <Unread error={error} />}
      {run && <Run run={run} />}
    </>
  );
}

function Run({ run }: { run: RunView }) {
  const { id, name, status, agent, startedAt, updatedAt, tasks } = run;
  const done = tasks.filter(({ phase }) => phase === 'done').length;
  const stop = async () => {
    if (await act('run.stop', { id })) tell(RUN_TEXT.stopped);
  };
  const again = async () => {
    if (await act('run.again', { id })) tell(RUN_TEXT.started);
  };
  return (
    <>
      <Facts
        rows={[
          [RUN_TEXT.facts.progress, RUN_TEXT.counts(done, tasks.length)],
          [RUN_TEXT.facts.agent, <AgentName key="a" address={agent} />],
          [RUN_TEXT.facts.started, <Ago key="t" at={startedAt} />],
          [RUN_TEXT.facts.changed, <Ago key="u" at={updatedAt} />],
          [RUN_TEXT.facts.usage, totalOf(tasks)],
        ]}
      />
      <div class="actions padded">
        {status === 'running' && <Confirm label={RUN_TEXT.stop} question={RUN_TEXT.stopQuestion} act={stop} />}
        {status !== 'running' && status !== 'done' && (
          <button type="button" title={RUN_TEXT.againHint} onClick={() => void again()}>
            {RUN_TEXT.again}
          </button>
        )}
        <a class="button" href={href('mail', id)}>
          {TASKS_TEXT.read}
        </a>
      </div>
      <Table columns={RUN_TEXT.columns} label={name}>
        {tasks.map((task) => (
          <Row key={task.id} task={task} />
        ))}
      </Table>
      {status === 'done' && <Empty command={RUN_TEXT.freshCommand}>{RUN_TEXT.fresh}</Empty>}
    </>
  );
}

function Row({ task }: { task: TaskView }) {
  const { id, phase, attempt, by, reason, since, usage, result } = task;
  return (
    <tr>
      <th scope="row" class="mono">
        {id}
      </th>
      <td>
        <State state={phase} />
      </td>
      <td class="mono">{attempt}</td>
      <td>
        {by?.split(', ').map((one) => (
          <AgentName key={one} address={one} />
        ))}
      </td>
      <td>
        <Ago at={since} />
      </td>
      <td class="why">
        {reason && (
          <p class="bad">
            <code>{reason.code}</code> {reason.message}
          </p>
        )}
        {result !== undefined && <Json value={result} label={RUN_TEXT.result} />}
        {usage && <p class="dim">{PARTS_TEXT.usage(usage)}</p>}
      </td>
    </tr>
  );
}

/** The sum of the reported usage. */
function totalOf(tasks: readonly TaskView[]): string | undefined {
  const all = tasks.flatMap(({ usage }) => usage ?? []);
  if (all.length === 0) return undefined;
  const sum = (of: (usage: Usage) => number) => all.reduce((total, usage) => total + of(usage), 0);
  const isPriced = all.some(({ costUsd }) => costUsd !== undefined);
  return PARTS_TEXT.usage({
    inputTokens: sum(({ inputTokens }) => inputTokens),
    outputTokens: sum(({ outputTokens }) => outputTokens),
    modelCalls: sum(({ modelCalls }) => modelCalls),
    ...(isPriced && { costUsd: sum(({ costUsd = 0 }) => costUsd) }),
  });
}
