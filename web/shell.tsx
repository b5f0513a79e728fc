import { useEffect, useRef } from 'preact/hooks';
import { connection } from './api.js';
import { helpOpen, SEARCH_ID } from './keys.js';
import { PLACES } from './places.js';
import { go, href, route } from './route.js';
import { isStale, lineKey, messages, narrow, notice, now, sampled } from './store.js';
import { closed, lastHeard, node, readOf } from './stream.js';
import { span, TEXT } from './text.js';
import { Line } from './views/messages.js';
import { Needs } from './views/needs.js';
import { waiting } from './waiting.js';

const LOG_LINES = 8;

/** The frame: places on the left, the view, and what waits for the owner on the right. */
export function Shell() {
  if (closed.value !== undefined) return <Closed why={closed.value} />;
  const shown = PLACES.filter(({ narrowOnly }) => narrow.value || !narrowOnly);
  const { place: id, rest } = route.value;
  const place = id === '' ? shown[0] : shown.find((one) => one.id === id);
  return (
    <div class={isStale.value ? 'page is-stale' : 'page'}>
      <a class="skip" href="#view">
        {TEXT.skip}
      </a>
      <header>
        <h1>
          <a href={href('')}>{TEXT.product}</a>
          {node.value && (
            <span class="dim" title={node.value.node}>
              {' '}
              · {node.value.name || node.value.node.slice(0, 8)}
            </span>
          )}
        </h1>
        <Search />
        <a class="quiet dim" href="/docs">
          {TEXT.documents}
        </a>
        <Connection />
      </header>
      <nav aria-label={TEXT.placesLabel}>
        {shown
          .filter(({ hidden }) => !hidden)
          .map((one) => (
            <a key={one.id} href={href(one.id)} aria-current={place === one ? 'page' : undefined}>
              {TEXT.places[one.id]}
              {one.id === 'needs' && <Count />}
            </a>
          ))}
      </nav>
      <main id="view" tabIndex={-1} class={place ? `view-${place.id}` : ''}>
        <h2>{place ? TEXT.places[place.id] : TEXT.noPlace}</h2>
        {place && <place.view key={place.id} rest={rest} />}
      </main>
      {!narrow.value && (
        <aside aria-label={TEXT.needs.label}>
          <h2>
            {TEXT.places.needs}
            <Count />
          </h2>
          <Needs />
        </aside>
      )}
      {!narrow.value && place?.id !== 'messages' && <Log />}
      {helpOpen.value && <Help />}
      <p class="notice" role="status">
        {notice.value}
      </p>
    </div>
  );
}

/** Takes any id, the name of an agent, or a text of messages. */
function Search() {
  const field = useRef<HTMLInputElement>(null);
  const submit = () => {
    const text = field.current!.value.trim();
    if (text === '') return;
    const agents = readOf<readonly { readonly id: string }[]>('agents').peek().value ?? [];
    if (agents.some(({ id }) => id === text)) go('agents', text);
    else if (/^[\w:/.@-]*\d[\w:/.@-]*$/.test(text) && text.length >= 6) go('story', text);
    else go('messages', text);
    field.current!.blur();
  };
  return (
    <form
      class="search"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <input
        ref={field}
        id={SEARCH_ID}
        type="search"
        aria-label={TEXT.search.label}
        placeholder={TEXT.search.hint}
        maxLength={500}
      />
    </form>
  );
}

/** The latest messages, one line each, below every view. */
function Log() {
  const lines = messages.value ?? [];
  return (
    <section class="log" aria-label={TEXT.log}>
      {sampled.value && <p class="warn">{TEXT.sampled(sampled.value.shown, sampled.value.total)}</p>}
      {lines.length === 0 && <p class="dim">{TEXT.messages.none}</p>}
      <ol class="messages">
        {lines.slice(0, LOG_LINES).map((line) => (
          <Line key={lineKey(line)} line={line} />
        ))}
      </ol>
    </section>
  );
}

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const close = () => {
    helpOpen.value = false;
  };
  const places = PLACES.filter(({ hidden, narrowOnly }) => !hidden && !narrowOnly);
  return (
    <dialog ref={dialog} onClose={close} aria-label={TEXT.help.title}>
      <h2>{TEXT.help.title}</h2>
      <dl class="keys">
        {TEXT.help.rows.map(([keys, text]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
        {places.map(({ id, key }) => (
          <div key={id}>
            <dt>
              <kbd>g {key}</kbd>
            </dt>
            <dd>{TEXT.help.go(TEXT.places[id])}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={close}>
        {TEXT.help.close}
      </button>
    </dialog>
  );
}

function Count() {
  const count = waiting.value?.length ?? 0;
  return count === 0 ? null : <span class="count">{count}</span>;
}

function Connection() {
  const state = connection.value;
  if (state === 'live') {
    return (
      <p class="connection good">
        <span aria-hidden="true">●</span> {TEXT.live}
      </p>
    );
  }
  if (state === 'connecting') {
    return (
      <p class="connection dim">
        <span aria-hidden="true">◌</span> {TEXT.connecting}
      </p>
    );
  }
  const heard = lastHeard.value;
  return (
    <p class="connection warn" role="alert" title={TEXT.reconnect}>
      <span aria-hidden="true">◌</span> {TEXT.stale}
      {/* Counts on, so a screen reader would repeat it every second. */}
      <span aria-hidden="true">
        : {heard === undefined ? TEXT.staleAtAll : TEXT.staleSince(span(now.value - heard))}
      </span>
    </p>
  );
}

function Closed({ why }: { why: 'used' | 'ended' }) {
  return (
    <main class="closed">
      <h1>{TEXT.closed.title}</h1>
      <p>{TEXT.closed[why]}</p>
      <p>{TEXT.closed.how}</p>
      <pre>{TEXT.closed.command}</pre>
    </main>
  );
}
