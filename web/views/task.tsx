import { useState } from 'preact/hooks';
import type { Message, Part, Task } from '../../src/a2a/protocol/types.js';
import type { ProposalListRow, TaskDetail, TaskRow } from '../../src/node/control/rows.js';
import type { Usage } from '../../src/work/usage.js';
import { Confirm } from '../parts/confirm.js';
import { Stale } from '../parts/empty.js';
import { AgentName, Ago, Id, Json, State } from '../parts/facts.js';
import { Field, Form } from '../parts/form.js';
import { Unread } from '../parts/read.js';
import { Crumb, Facts, Section } from '../parts/table.js';
import { act, tell } from '../store.js';
import { keyOf, useRead } from '../stream.js';
import { PARTS_TEXT } from '../text/parts.js';
import { stateWord, TASKS_TEXT } from '../text/tasks.js';
import { sendAddress } from './send.js';
import { OPERATOR, Thread } from './thread.js';

const OVER = new Set(['completed', 'failed', 'canceled', 'rejected']);
const ASKING = new Set(['input required', 'auth required']);

/** One task: a task of an A2A client, or a proposal between agents. */
export function TaskView({ id }: { id: string }) {
  const { value, error } = useRead<TaskDetail>(keyOf('task', { id }));
  return (
    <>
      <Crumb place="tasks" title={value?.text || undefined}>
        {value && <State state={stateWord(value.state)} />}
      </Crumb>
      {value && <Stale error={error} />}
      {value ? <ClientTask detail={value} /> : error === undefined ? <Unread error={error} /> : <Proposal id={id} />}
    </>
  );
}

function ClientTask({ detail }: { detail: TaskDetail }) {
  const { id, state, caller, agent, createdAt, updatedAt, task } = detail;
  const word = stateWord(state);
  const { message } = task.status;
  const names = TASKS_TEXT.facts;
  return (
    <>
      <Facts
        rows={[
          [names.kind, TASKS_TEXT.kinds.a2a],
          [names.caller, <AgentName key="c" address={caller} />],
          [names.agent, <AgentName key="a" address={agent} />],
          [names.created, <Ago key="t" at={createdAt} />],
          [names.changed, <Ago key="u" at={updatedAt === null ? createdAt : Date.parse(updatedAt)} />],
          [names.usage, usageOf(task)],
          [names.id, <Id key="i" id={id} />],
        ]}
      />
      {ASKING.has(word) && <Question task={task} caller={caller} />}
      {message && !ASKING.has(word) && (
        <Section title={TASKS_TEXT.progress}>
          <Parts parts={message.parts} />
        </Section>
      )}
      <Section title={TASKS_TEXT.artifacts}>
        {(task.artifacts ?? []).length === 0 && <p class="dim">{TASKS_TEXT.noArtifacts}</p>}
        {task.artifacts?.map(({ artifactId, name, parts }) => (
          <figure key={artifactId}>
            <figcaption class="dim mono">{name ?? artifactId}</figcaption>
            <Parts parts={parts} />
          </figure>
        ))}
      </Section>
      <Section title={TASKS_TEXT.messages}>
        <ol class="talk">
          {(task.history ?? []).map((one) => (
            <Said key={one.messageId} message={one} />
          ))}
        </ol>
      </Section>
      <Actions id={id} isOver={OVER.has(word)} again={{ what: 'task', to: agent, text: askedIn(task) }} />
      <Section title={PARTS_TEXT.raw}>
        <Json value={task} label={PARTS_TEXT.json} />
      </Section>
    </>
  );
}

/** The whole text of the first message; the row of a task has its beginning only. */
function askedIn({ history }: Task): string {
  return history?.[0]?.parts.flatMap(({ text }) => text ?? []).join('\n') ?? '';
}

function usageOf({ metadata }: Task): string | undefined {
  const usage = metadata?.usage as Usage | undefined;
  return usage && PARTS_TEXT.usage(usage);
}

/** Only the caller of a task may answer its question. */
function Question({ task: { id, status }, caller }: { task: Task; caller: string }) {
  const [text, setText] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    if (text.trim() === '') return;
    setBusy(true);
    if (await act('task.answer', { id, text })) {
      tell(TASKS_TEXT.answered);
      setText('');
    }
    setBusy(false);
  };
  return (
    <Section title={TASKS_TEXT.question}>
      <Parts parts={status.message?.parts ?? []} />
      {caller !== OPERATOR ? (
        <p class="dim">{TASKS_TEXT.notYours(caller)}</p>
      ) : (
        <Form label={TASKS_TEXT.answer} busy={busy} submit={() => void submit()} button={TASKS_TEXT.answer}>
          <Field label={TASKS_TEXT.answerLabel}>
            <textarea rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} />
          </Field>
        </Form>
      )}
    </Section>
  );
}

function Said({ message: { role, parts } }: { message: Message }) {
  return (
    <li>
      <p class="dim">{TASKS_TEXT.roles[role]}</p>
      <Parts parts={parts} />
    </li>
  );
}

function Parts({ parts }: { parts: readonly Part[] }) {
  return (
    <>
      {parts.map((part, at) => {
        const { text, data, url, filename } = part;
        if (text !== undefined) {
          return (
            <p key={at} class="said">
              {text}
            </p>
          );
        }
        if (data !== undefined) return <Json key={at} value={data} open label={PARTS_TEXT.json} />;
        return (
          <p key={at} class="mono said">
            {filename ?? url ?? part.mediaType}
          </p>
        );
      })}
    </>
  );
}

function Actions({ id, isOver, again }: { id: string; isOver: boolean; again: Parameters<typeof sendAddress>[0] }) {
  const cancel = async () => {
    const canceled = await act<Task | TaskRow>('task.cancel', { id });
    if (canceled) tell(TASKS_TEXT.canceled(stateWord('status' in canceled ? canceled.status.state : canceled.state)));
  };
  return (
    <div class="actions padded">
      {!isOver && <Confirm label={TASKS_TEXT.cancel} question={TASKS_TEXT.cancelQuestion} act={cancel} />}
      <a class="button" href={sendAddress(again)}>
        {TASKS_TEXT.again}
      </a>
    </div>
  );
}

/** Proposals are kept by their parties, not by the task store. */
function Proposal({ id }: { id: string }) {
  const { value: all, error } = useRead<readonly ProposalListRow[]>('proposals');
  const { value: tasks } = useRead<readonly TaskRow[]>(keyOf('tasks', { kind: 'proposal', limit: 1_000 }));
  const found = all?.find(({ proposal }) => proposal.proposalId.startsWith(id));
  if (!all || !tasks) return <Unread error={error} />;
  if (!found) return <Unread error={TASKS_TEXT.noMatch} />;
  const { agent, side, peer, durable, proposal } = found;
  const { proposalId, taskDescription, acceptedBy, rejectionReason, alternativeSuggestion, correlationId } = proposal;
  const row = tasks.find((one) => one.id === proposalId);
  const word = row ? stateWord(row.state) : proposal.status;
  const worker = acceptedBy ?? (side === 'sent' ? peer : agent);
  const names = TASKS_TEXT.facts;
  return (
    <>
      <Stale error={error} />
      <p class="said padded">{taskDescription}</p>
      <Facts
        rows={[
          [names.state, <State key="s" state={word} />],
          [names.kind, TASKS_TEXT.kinds.proposal],
          [names.caller, <AgentName key="c" address={side === 'sent' ? agent : peer} />],
          [names.agent, worker && <AgentName key="a" address={worker} />],
          [names.created, row && <Ago key="t" at={row.createdAt} />],
          [names.capabilities, proposal.requiredCapabilities.join(', ')],
          [names.deadline, PARTS_TEXT.ms(proposal.deadlineMs)],
          [names.durable, durable ? TASKS_TEXT.yes : TASKS_TEXT.no],
          [names.reason, rejectionReason],
          [names.suggestion, alternativeSuggestion],
          [names.id, <Id key="i" id={proposalId} />],
        ]}
      />
      <Actions id={proposalId} isOver={OVER.has(word)} again={{ what: 'task', to: worker, text: taskDescription }} />
      <Section title={names.conversation}>
        <Thread id={correlationId} />
      </Section>
    </>
  );
}
