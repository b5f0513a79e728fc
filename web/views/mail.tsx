import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { AgentRow, MailRow, ThreadPage, ThreadRow } from '../../src/node/control/rows.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, Ago, Id, State } from '../parts/facts.js';
import { Choice, Field } from '../parts/form.js';
import { useOnce } from '../parts/once.js';
import { Unread } from '../parts/read.js';
import { Table } from '../parts/table.js';
import { href } from '../route.js';
import { act, tell } from '../store.js';
import { keyOf, type Read, useRead } from '../stream.js';
import { MAIL_TEXT } from '../text/mail.js';
import { PARTS_TEXT } from '../text/parts.js';
import { Conversation } from './conversation.js';
import { isInternal } from './messages.js';
import { OPERATOR } from './thread.js';

type Tab = keyof typeof MAIL_TEXT.tabs;
const TABS = Object.keys(MAIL_TEXT.tabs) as readonly Tab[];
const TEXT_CHARS = 300;
/** Rows in one answer of the node. */
const PAGE = 100;

/** Conversations, inboxes and the outbox; with an id, one conversation. */
export function Mail({ rest }: { rest: string }) {
  const [tab, setTab] = useState<Tab>('threads');
  if (rest !== '') return <Conversation key={rest} id={rest} />;
  return (
    <>
      <div class="tabs" role="tablist" aria-label={MAIL_TEXT.tabsLabel}>
        {TABS.map((one) => (
          <button key={one} type="button" role="tab" aria-selected={tab === one} onClick={() => setTab(one)}>
            {MAIL_TEXT.tabs[one]}
          </button>
        ))}
      </div>
      {tab === 'threads' && <Threads />}
      {tab === 'inbox' && <Inbox />}
      {tab === 'outbox' && <Outbox />}
    </>
  );
}

function Threads() {
  const [text, setText] = useState('');
  return (
    <>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          setText(String(new FormData(event.currentTarget).get('text')).trim());
        }}
      >
        <input
          type="search"
          name="text"
          maxLength={200}
          aria-label={MAIL_TEXT.search}
          placeholder={MAIL_TEXT.searchHint}
        />
        <button type="submit">{MAIL_TEXT.search}</button>
      </form>
      {text === '' ? <Latest /> : <Found key={text} text={text} />}
    </>
  );
}

interface Paging {
  readonly before: number | undefined;
  readonly setBefore: (before: number | undefined) => void;
}

function Latest() {
  const [before, setBefore] = useState<number | undefined>(undefined);
  const page = useRead<ThreadPage>(keyOf('threads', { before }));
  return (
    <ThreadTable {...page} before={before} setBefore={setBefore}>
      {before === undefined ? (
        <Empty command={MAIL_TEXT.noThreadsCommand}>{MAIL_TEXT.noThreads}</Empty>
      ) : (
        <Empty>{MAIL_TEXT.noMatch}</Empty>
      )}
    </ThreadTable>
  );
}

function Found({ text }: { text: string }) {
  const [before, setBefore] = useState<number | undefined>(undefined);
  const page = useOnce<ThreadPage>(keyOf('threads', { text, before }));
  return (
    <ThreadTable {...page} before={before} setBefore={setBefore}>
      <Empty>{MAIL_TEXT.noMatch}</Empty>
    </ThreadTable>
  );
}

/** A page of conversations; the children stand for an empty one. */
function ThreadTable({
  value: page,
  error,
  before,
  setBefore,
  children,
}: Read<ThreadPage> & Paging & { children: ComponentChildren }) {
  if (!page) return <Unread error={error} />;
  return (
    <>
      <Stale error={error} />
      {page.threads.length === 0 && children}
      {page.threads.length > 0 && (
        <Table columns={MAIL_TEXT.threadColumns} label={MAIL_TEXT.tabs.threads}>
          {page.threads.map((row) => (
            <ThreadLine key={row.thread} row={row} />
          ))}
        </Table>
      )}
      <p class="actions padded">
        {page.before !== null && (
          <button type="button" onClick={() => setBefore(page.before!)}>
            {PARTS_TEXT.earlier}
          </button>
        )}
        {before !== undefined && (
          <button type="button" onClick={() => setBefore(undefined)}>
            {PARTS_TEXT.latest}
          </button>
        )}
        {page.threads.length > 0 && <span class="dim">{MAIL_TEXT.counted(page.read)}</span>}
      </p>
    </>
  );
}

function ThreadLine({ row }: { row: ThreadRow }) {
  const { thread, messages, refused, participants, subject, last } = row;
  return (
    <tr>
      <th scope="row" class="wide">
        <a class="excerpt" href={href('mail', thread)}>
          {subject ?? last.text ?? MAIL_TEXT.onlyType(last.type)}
        </a>
        {last.text !== null && last.text !== subject && !isInternal(last.text) && (
          <span class="dim one-line">{last.text}</span>
        )}
      </th>
      <td>
        {participants.map((one, at) => (
          <span key={one} class="nowrap">
            {at > 0 && ', '}
            <AgentName address={one} />
          </span>
        ))}
      </td>
      <td class="mono nowrap">
        {messages}
        {refused > 0 && <span class="bad"> ✕ {MAIL_TEXT.refused(refused)}</span>}
      </td>
      <td>
        <Ago at={last.at} />
      </td>
    </tr>
  );
}

function Inbox() {
  const [as, setAs] = useState(OPERATOR);
  const [after, setAfter] = useState<number | undefined>(undefined);
  const { value: agents } = useRead<readonly AgentRow[]>('agents');
  const { value: rows, error } = useRead<readonly MailRow[]>(keyOf('inbox', { as, after }));
  const own = (agents ?? []).filter(({ node, id }) => node === null && id !== OPERATOR).map(({ id }) => id);
  return (
    <>
      <p class="filters">
        <Field label={MAIL_TEXT.inboxOf} inline>
          <Choice
            value={as}
            options={[[OPERATOR, MAIL_TEXT.you], ...own.sort().map((id) => [id, id] as const)]}
            change={(name) => {
              setAfter(undefined);
              setAs(name);
            }}
          />
        </Field>
      </p>
      {rows ? <Stale error={error} /> : <Unread error={error} />}
      {rows?.length === 0 && <Empty command={MAIL_TEXT.noInboxCommand(as)}>{MAIL_TEXT.noInbox(as)}</Empty>}
      {rows && rows.length > 0 && (
        <Table columns={MAIL_TEXT.inboxColumns} label={MAIL_TEXT.tabs.inbox}>
          {rows.map((row) => (
            <MailLine key={row.id} row={row} isOwners={as === OPERATOR}>
              <AgentName address={row.from} />
            </MailLine>
          ))}
        </Table>
      )}
      <Pages rows={rows} after={after} setAfter={setAfter} />
    </>
  );
}

function Outbox() {
  const [after, setAfter] = useState<number | undefined>(undefined);
  const { value: rows, error } = useRead<readonly MailRow[]>(keyOf('outbox', { after }));
  return (
    <>
      {rows ? <Stale error={error} /> : <Unread error={error} />}
      {rows?.length === 0 && <Empty command={MAIL_TEXT.noOutboxCommand}>{MAIL_TEXT.noOutbox}</Empty>}
      {rows && rows.length > 0 && (
        <Table columns={MAIL_TEXT.outboxColumns} label={MAIL_TEXT.tabs.outbox}>
          {rows.map((row) => (
            <MailLine key={row.id} row={row}>
              <AgentName address={row.from} /> → <AgentName address={row.to} />
            </MailLine>
          ))}
        </Table>
      )}
      <Pages rows={rows} after={after} setAfter={setAfter} />
    </>
  );
}

function MailLine({
  row,
  isOwners = false,
  children,
}: {
  row: MailRow;
  isOwners?: boolean;
  children: ComponentChildren;
}) {
  const { id, state, payload, thread, at, expiresAt } = row;
  const close = async () => {
    if ((await act('owner.done', { ids: [id] })) !== undefined) tell(MAIL_TEXT.closed);
  };
  return (
    <tr>
      <td>
        <State state={state} />
      </td>
      <th scope="row" class="wide">
        <a class="excerpt" href={href('mail', thread ?? id)}>
          {excerptOf(payload)}
        </a>
      </th>
      <td class="nowrap">{children}</td>
      <td>
        <Ago at={at} />
      </td>
      <td>{expiresAt !== null && <Ago at={expiresAt} />}</td>
      <td class="nowrap">
        <Id id={id} />
        {isOwners && (
          <button type="button" onClick={() => void close()}>
            {MAIL_TEXT.done}
          </button>
        )}
      </td>
    </tr>
  );
}

function Pages({
  rows,
  after,
  setAfter,
}: {
  rows: readonly MailRow[] | undefined;
  after: number | undefined;
  setAfter: (after: number | undefined) => void;
}) {
  const last = rows?.at(-1)?.number;
  return (
    <p class="actions padded">
      {rows && rows.length >= PAGE && (
        <button type="button" onClick={() => setAfter(last)}>
          {PARTS_TEXT.more}
        </button>
      )}
      {after !== undefined && (
        <button type="button" onClick={() => setAfter(undefined)}>
          {PARTS_TEXT.first}
        </button>
      )}
    </p>
  );
}

/** The beginning of a payload: the text of a letter, or JSON. */
function excerptOf(payload: unknown): string {
  if (payload === undefined || payload === null) return MAIL_TEXT.noText;
  const { text } = payload as { text?: unknown };
  const whole = typeof payload === 'string' ? payload : typeof text === 'string' ? text : JSON.stringify(payload);
  return whole.length > TEXT_CHARS ? `${whole.slice(0, TEXT_CHARS)}…` : whole;
}
