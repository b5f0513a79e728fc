import { useState } from 'preact/hooks';
import type { DocumentRow, HistoryRow } from '../../src/node/control/rows.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, Ago, Json, shortAddress } from '../parts/facts.js';
import { Field, Form, jsonOrText } from '../parts/form.js';
import { Unread } from '../parts/read.js';
import { Crumb, Section, Table } from '../parts/table.js';
import { go, href } from '../route.js';
import { act, tell } from '../store.js';
import { keyOf, useRead } from '../stream.js';
import { DOCUMENTS_TEXT } from '../text/documents.js';
import { PARTS_TEXT } from '../text/parts.js';
import { TEXT } from '../text.js';

/** Changes of the history that are shown. */
const SHOWN = 100;

/** Shared documents; with a name, the content and history of one. */
export function Documents({ rest }: { rest: string }) {
  return rest === '' ? <List /> : <Document key={rest} name={rest} />;
}

function List() {
  const { value: rows, error } = useRead<readonly DocumentRow[]>('states');
  const names = [...new Set(rows?.map(({ name }) => name))].sort();
  return (
    <>
      {rows ? <Stale error={error} /> : <Unread error={error} />}
      {rows?.length === 0 && <Empty command={DOCUMENTS_TEXT.noneCommand}>{DOCUMENTS_TEXT.none}</Empty>}
      {rows && rows.length > 0 && (
        <Table columns={DOCUMENTS_TEXT.columns} label={TEXT.places.documents}>
          {names.map((name) => (
            <Row key={name} name={name} rows={rows.filter((row) => row.name === name)} />
          ))}
        </Table>
      )}
      <Section title={DOCUMENTS_TEXT.create}>
        <SetForm />
      </Section>
    </>
  );
}

/** One document, of which each agent that has it open holds a replica. */
function Row({ name, rows }: { name: string; rows: readonly DocumentRow[] }) {
  const [{ holds, segments, bytes }] = rows as readonly [DocumentRow];
  const members = new Set(rows.flatMap((row) => row.members));
  return (
    <tr>
      <th scope="row">
        <a href={href('documents', name)}>{name}</a>
      </th>
      <td>
        {rows.map(({ agent }, at) => (
          <span key={agent} class="nowrap">
            {at > 0 && ', '}
            <AgentName address={agent} />
          </span>
        ))}
      </td>
      <td class="mono">{holds.join(', ')}</td>
      <td class="nowrap">{DOCUMENTS_TEXT.segments(segments, PARTS_TEXT.bytes(bytes))}</td>
      <td class="mono">{[...members].map(shortAddress).join(', ')}</td>
    </tr>
  );
}

function Document({ name }: { name: string }) {
  const { value: content, error } = useRead<unknown>(keyOf('stateGet', { name }));
  return (
    <>
      <Crumb place="documents" title={name}>
        <span class="dim">{DOCUMENTS_TEXT.live}</span>
      </Crumb>
      <Section title={DOCUMENTS_TEXT.content}>
        {content === undefined ? <Unread error={error} /> : <Stale error={error} />}
        {content !== undefined && <Json value={content} open label={PARTS_TEXT.json} />}
      </Section>
      <Section title={DOCUMENTS_TEXT.set}>
        <SetForm name={name} />
      </Section>
      <History name={name} />
    </>
  );
}

function SetForm({ name }: { name?: string }) {
  const [newName, setNewName] = useState('');
  const [path, setPath] = useState('');
  const [value, setValue] = useState('');
  const [busy, setBusy] = useState(false);
  const document = name ?? newName.trim();
  const submit = async () => {
    if (busy || document === '' || path.trim() === '') return;
    setBusy(true);
    const done = await act('stateSet', { name: document, path: path.trim(), value: jsonOrText(value) });
    setBusy(false);
    if (!done) return;
    tell(DOCUMENTS_TEXT.saved(path));
    setValue('');
    if (name === undefined) go('documents', document);
  };
  return (
    <Form label={DOCUMENTS_TEXT.set} busy={busy} submit={() => void submit()} button={DOCUMENTS_TEXT.save}>
      {name === undefined && (
        <Field label={DOCUMENTS_TEXT.name}>
          <input value={newName} maxLength={200} onInput={(event) => setNewName(event.currentTarget.value)} />
        </Field>
      )}
      <div class="side-by-side">
        <Field label={DOCUMENTS_TEXT.path} hint={DOCUMENTS_TEXT.pathHint}>
          <input class="mono" value={path} onInput={(event) => setPath(event.currentTarget.value)} />
        </Field>
        <Field label={DOCUMENTS_TEXT.value} hint={DOCUMENTS_TEXT.valueHint}>
          <textarea rows={2} class="mono" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
        </Field>
      </div>
    </Form>
  );
}

function History({ name }: { name: string }) {
  const { value: rows, error } = useRead<readonly HistoryRow[]>(keyOf('stateHistory', { name }));
  const latest = rows && newestFirst(rows).slice(0, SHOWN);
  const note = rows && rows.length > SHOWN ? DOCUMENTS_TEXT.latest(SHOWN, rows.length) : undefined;
  return (
    <Section title={DOCUMENTS_TEXT.history} note={note}>
      {rows ? <Stale error={error} /> : <Unread error={error} />}
      {rows?.length === 0 && <p class="dim">{DOCUMENTS_TEXT.noHistory}</p>}
      {latest && latest.length > 0 && (
        <Table columns={DOCUMENTS_TEXT.historyColumns} label={DOCUMENTS_TEXT.history}>
          {latest.map(({ author, session, number, turns, bytes, at, since, changes }) => (
            <tr key={`${author} ${session} ${number}`}>
              <th scope="row">
                <AgentName address={author} />
              </th>
              <td class="wide mono">{changes.join(', ') || DOCUMENTS_TEXT.noChanges}</td>
              <td class="nowrap">
                {DOCUMENTS_TEXT.turns(turns)}, {PARTS_TEXT.bytes(bytes)}
              </td>
              <td class="nowrap">
                {at === null ? (
                  <span class="dim" title={DOCUMENTS_TEXT.kept}>
                    {DOCUMENTS_TEXT.since} <Ago at={since} />
                  </span>
                ) : (
                  <Ago at={at} />
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

/** By the time that is known of a segment. */
function newestFirst(rows: readonly HistoryRow[]): HistoryRow[] {
  const time = ({ at, since }: HistoryRow) => at ?? since ?? 0;
  return [...rows].sort((a, b) => time(b) - time(a) || b.number - a.number);
}
