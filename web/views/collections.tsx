import { useEffect, useState } from 'preact/hooks';
import type { CollectionName } from '../../src/collections/entry.js';
import type { EntryRow } from '../../src/node/control/rows.js';
import { Confirm } from '../parts/confirm.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, Ago, shortAddress } from '../parts/facts.js';
import { Field, Form } from '../parts/form.js';
import { Unread } from '../parts/read.js';
import { Section, Table } from '../parts/table.js';
import { go } from '../route.js';
import { act, tell } from '../store.js';
import { keyOf, useRead } from '../stream.js';
import { COLLECTIONS_TEXT } from '../text/collections.js';

const NAMES = Object.keys(COLLECTIONS_TEXT.names) as CollectionName[];
/** More would not be read by a person. */
const SHOWN = 50;
const TYPING_MS = 200;
const EXCERPT_CHARS = 60;

/** Memory, house rules and taste; the rest of the address names one. */
export function Collections({ rest }: { rest: string }) {
  const collection = NAMES.find((name) => name === rest) ?? 'memory';
  return (
    <>
      <div class="tabs" role="tablist" aria-label={COLLECTIONS_TEXT.label}>
        {NAMES.map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            aria-selected={name === collection}
            onClick={() => go('memory', name === 'memory' ? '' : name)}
          >
            {COLLECTIONS_TEXT.names[name]}
          </button>
        ))}
      </div>
      <Collection key={collection} collection={collection} />
    </>
  );
}

function Collection({ collection }: { collection: CollectionName }) {
  const [typed, setTyped] = useState('');
  const [query, setQuery] = useState('');
  const [tag, setTag] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setQuery(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const terms = { collection, query: query || undefined, tag: tag || undefined, limit: SHOWN };
  const { value: rows, error } = useRead<readonly EntryRow[]>(keyOf('entries', terms));
  const isFiltered = query !== '' || tag !== '';
  const cut = rows?.length === SHOWN ? COLLECTIONS_TEXT.latest(SHOWN) : undefined;
  return (
    <>
      <p class="dim padded">{COLLECTIONS_TEXT.about[collection]}</p>
      <Section title={COLLECTIONS_TEXT.entries} note={query === '' ? cut : COLLECTIONS_TEXT.best}>
        <p class="filters">
          <Field label={COLLECTIONS_TEXT.search} inline>
            <input
              type="search"
              value={typed}
              maxLength={500}
              placeholder={COLLECTIONS_TEXT.searchHint}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </Field>
          {tag !== '' && (
            <button type="button" aria-label={COLLECTIONS_TEXT.clearTag(tag)} onClick={() => setTag('')}>
              {COLLECTIONS_TEXT.tag} {tag} <span aria-hidden="true">✕</span>
            </button>
          )}
        </p>
        {rows ? <Stale error={error} /> : <Unread error={error} />}
        {rows?.length === 0 &&
          (isFiltered ? (
            <Empty>{COLLECTIONS_TEXT.noMatch}</Empty>
          ) : (
            <Empty command={COLLECTIONS_TEXT.noneCommand(collection)}>{COLLECTIONS_TEXT.none}</Empty>
          ))}
        {rows && rows.length > 0 && (
          <Table columns={COLLECTIONS_TEXT.columns} label={COLLECTIONS_TEXT.names[collection]}>
            {rows.map((row) => (
              <Row key={row.id} row={row} choose={setTag} />
            ))}
          </Table>
        )}
      </Section>
      <Section title={COLLECTIONS_TEXT.add[collection]}>
        <AddForm collection={collection} />
      </Section>
    </>
  );
}

function Row({ row, choose }: { row: EntryRow; choose: (tag: string) => void }) {
  const { id, collection, text, tags, author, origin, owner, sandbox, at } = row;
  const forget = async () => {
    if (await act('entries.forget', { id, collection })) tell(COLLECTIONS_TEXT.forgotten);
  };
  return (
    <tr>
      <th scope="row" class="wide said">
        {text}
      </th>
      <td>
        <p class="words">
          {tags.map((tag) => (
            <button key={tag} type="button" onClick={() => choose(tag)}>
              {tag}
            </button>
          ))}
        </p>
      </td>
      <td>
        <span title={COLLECTIONS_TEXT.signed(shortAddress(origin))}>
          {owner ? COLLECTIONS_TEXT.you : <AgentName address={author} />}
        </span>
        {sandbox !== null && <div class="dim">{COLLECTIONS_TEXT.sandbox(sandbox)}</div>}
      </td>
      <td class="nowrap">
        <Ago at={at} />
      </td>
      <td>
        <Confirm label={COLLECTIONS_TEXT.forget} question={COLLECTIONS_TEXT.forgetQuestion} act={forget} />
      </td>
    </tr>
  );
}

function AddForm({ collection }: { collection: CollectionName }) {
  const [text, setText] = useState('');
  const [tags, setTags] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    const said = text.trim();
    if (busy || said === '') return;
    const words = tags.split(/[\s,]+/).filter((word) => word !== '');
    setBusy(true);
    const done = await act('entries.add', { collection, text: said, ...(words.length > 0 && { tags: words }) });
    setBusy(false);
    if (!done) return;
    tell(COLLECTIONS_TEXT.added(said.length > EXCERPT_CHARS ? `${said.slice(0, EXCERPT_CHARS)}…` : said));
    setText('');
    setTags('');
  };
  return (
    <Form
      label={COLLECTIONS_TEXT.add[collection]}
      busy={busy}
      submit={() => void submit()}
      button={COLLECTIONS_TEXT.save}
    >
      <Field label={COLLECTIONS_TEXT.text}>
        <textarea rows={3} value={text} maxLength={8_192} onInput={(event) => setText(event.currentTarget.value)} />
      </Field>
      <Field label={COLLECTIONS_TEXT.tags} hint={COLLECTIONS_TEXT.tagsHint}>
        <input value={tags} maxLength={500} onInput={(event) => setTags(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}
