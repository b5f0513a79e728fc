import { useEffect, useRef } from 'preact/hooks';
import type { SentAnswer, WaitingAction, WaitingItem } from '../../src/http/dashboard/facts.js';
import { Empty, Stale } from '../parts/empty.js';
import { shortAddress } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { answer, busy, now, replying } from '../store.js';
import { ACTION_KEYS, ACTIONS, KINDS, span, TEXT } from '../text.js';
import {
  type ClosedItem,
  closedItem,
  dismiss,
  listed,
  missing,
  select,
  selected,
  waiting,
  waitingError,
} from '../waiting.js';

/** What waits for the owner: the selected item is open, and can be answered on the spot. */
export function Needs() {
  const items = listed.value;
  if (!items) return <Unread error={waitingError.value} reading={TEXT.needs.loading} />;
  const gone = closedItem.value;
  return (
    <>
      <Stale error={waitingError.value} />
      <Missing />
      {items.length > 0 && (
        <ol class="needs">
          {items.map((item) => (
            <Item
              key={item.id}
              item={item}
              isSelected={item.id === (gone?.item.id ?? selected.value?.id)}
              gone={item.id === gone?.item.id ? gone : undefined}
            />
          ))}
        </ol>
      )}
      {waiting.value?.length === 0 ? <None /> : <p class="dim keys">{TEXT.keys}</p>}
    </>
  );
}

/** Nothing waits, as far as this node knows. */
function None() {
  const names = missing.value.map(({ name }) => name);
  return (
    <Empty command={TEXT.needs.noneCommand}>
      {names.length === 0 ? TEXT.needs.none : TEXT.needs.noneKnown(names)} {TEXT.needs.noneHow}
    </Empty>
  );
}

/** The devices of the owner's whose items are not here. */
function Missing() {
  if (missing.value.length === 0) return null;
  return (
    <ul class="missing">
      {missing.value.map(({ node, name, since, reason }) => (
        <li key={node} class="dim" title={node}>
          <span aria-hidden="true">◌</span>{' '}
          {TEXT.needs.missing(name, reason, since === null ? undefined : span(now.value - since))}
        </li>
      ))}
    </ul>
  );
}

function Item({ item, isSelected, gone }: { item: WaitingItem; isSelected: boolean; gone: ClosedItem | undefined }) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isSelected) row.current?.scrollIntoView({ block: 'nearest' });
  }, [isSelected]);
  const { id, kind, title, from, since, node, answer: sent } = item;
  const names = ['item', isSelected && 'is-selected', gone && 'is-closed'].filter(Boolean);
  // Who writes a reply at this moment must not lose the field: the next letters would be taken for keys.
  const isOpen = isSelected && (!gone || replying.value === id);
  return (
    <li ref={row} class={names.join(' ')} data-kind={kind}>
      <button type="button" class="head" aria-expanded={isOpen} onClick={() => (gone ? dismiss() : select(id))}>
        <span class={gone ? 'kind dim' : 'kind warn'}>
          <span aria-hidden="true">{gone ? '○' : '▲'}</span> {KINDS[kind]}
        </span>
        <span class="from mono">
          {shortAddress(from)}
          {node && (
            <span class="dim" title={node.node}>
              {' '}
              {TEXT.needs.on(node.name)}
            </span>
          )}
        </span>
        <span class="age dim" title={since === null ? undefined : new Date(since).toISOString()}>
          {since === null ? '' : span(now.value - since)}
        </span>
        <span class={gone ? 'title dim' : 'title'}>{title}</span>
        {gone ? <Gone gone={gone} /> : sent && <Sent sent={sent} />}
      </button>
      {isOpen && <Open item={item} isGone={gone !== undefined} />}
    </li>
  );
}

/** Why a closed item no longer waits. */
function Gone({ gone: { item, given } }: { gone: ClosedItem }) {
  const away = given ? undefined : missing.value.find(({ node }) => node === item.node?.node);
  const age = given ? span(now.value - given.at) : '';
  return (
    <span class="sent">
      {away
        ? TEXT.needs.unknown(away.name)
        : given
          ? TEXT.needs.given(given.action, given.by, age)
          : given === undefined
            ? TEXT.needs.over
            : TEXT.needs.overHow}
    </span>
  );
}

function Sent({ sent: { state, action, by, at, reason } }: { sent: SentAnswer }) {
  return (
    <span class={state === 'sent' ? 'sent dim' : 'sent bad'} title={new Date(at).toISOString()}>
      <span aria-hidden="true">{state === 'sent' ? '○' : '✕'}</span>{' '}
      {state === 'sent' ? TEXT.needs.sent(action, by, span(now.value - at)) : TEXT.needs.refused(action, reason ?? '')}
    </span>
  );
}

function Open({ item, isGone }: { item: WaitingItem; isGone: boolean }) {
  const { until, details, diff, actions, kind, id } = item;
  return (
    <div class="open">
      {until !== null && !isGone && (
        <p class="dim">
          {kind === 'approval'
            ? TEXT.needs.denied(span(until - now.value))
            : TEXT.needs.expires(span(until - now.value))}
        </p>
      )}
      {details.length > 0 && (
        <dl>
          {details.map(({ label, text }) => (
            <div key={label}>
              <dt class="dim">{label}</dt>
              <dd class="mono">{text}</dd>
            </div>
          ))}
        </dl>
      )}
      {diff.length > 0 && (
        <figure>
          <figcaption class="dim">{TEXT.needs.diff}</figcaption>
          <pre class="diff">
            {diff.map((line, at) => (
              <span key={at} class={line.startsWith('+') ? 'good' : line.startsWith('-') ? 'bad' : ''}>
                {line}
                {'\n'}
              </span>
            ))}
          </pre>
        </figure>
      )}
      {replying.value === id ? <Reply item={item} isGone={isGone} /> : <Actions item={item} actions={actions} />}
    </div>
  );
}

function Actions({ item, actions }: { item: WaitingItem; actions: readonly WaitingAction[] }) {
  if (item.answer?.state === 'sent') return null;
  if (actions.length === 0) return <p class="dim">{TEXT.needs.noAction}</p>;
  const act = (action: WaitingAction) => {
    if (action === 'reply') replying.value = item.id;
    else void answer(item, action);
  };
  return (
    <p class="actions">
      {actions.map((action, at) => (
        <button
          key={action}
          type="button"
          class={at === 0 ? 'main' : ''}
          disabled={busy.value.has(item.id)}
          aria-keyshortcuts={ACTION_KEYS[action]}
          onClick={() => act(action)}
        >
          {ACTIONS[action]} <kbd>{ACTION_KEYS[action]}</kbd>
        </button>
      ))}
    </p>
  );
}

function Reply({ item, isGone }: { item: WaitingItem; isGone: boolean }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const send = () => {
    const text = field.current?.value.trim();
    if (text && !isGone) void answer(item, 'reply', text);
  };
  return (
    <form
      class="reply"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label>
        <span class="dim">{TEXT.needs.replyLabel}</span>
        <textarea
          ref={field}
          rows={3}
          maxLength={32_768}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send();
          }}
        />
      </label>
      <p class="actions">
        <button type="submit" class="main" disabled={isGone || busy.value.has(item.id)}>
          {TEXT.needs.send}
        </button>
        <button
          type="button"
          onClick={() => {
            replying.value = undefined;
          }}
        >
          {TEXT.needs.cancel}
        </button>
        <span class="dim">{isGone ? TEXT.needs.notSent : TEXT.needs.sendKey}</span>
      </p>
    </form>
  );
}
