import { useEffect, useRef } from 'preact/hooks';
import type { SentAnswer, WaitingAction, WaitingItem } from '../../src/http/dashboard/facts.js';
import { Empty, Stale } from '../parts/empty.js';
import { shortAddress } from '../parts/facts.js';
import { answer, busy, missing, now, replying, select, selected, waiting, waitingError } from '../store.js';
import { ACTION_KEYS, ACTIONS, KINDS, span, TEXT } from '../text.js';

/** What waits for the owner: the selected item is open, and can be answered on the spot. */
export function Needs() {
  const items = waiting.value;
  if (!items) return <Empty>{TEXT.needs.loading}</Empty>;
  return (
    <>
      <Stale error={waitingError.value} />
      <Missing />
      {items.length === 0 ? (
        <Empty command={TEXT.needs.noneCommand}>
          {TEXT.needs.none} {TEXT.needs.noneHow}
        </Empty>
      ) : (
        <ol class="needs">
          {items.map((item) => (
            <Item key={item.id} item={item} isSelected={item.id === selected.value?.id} />
          ))}
        </ol>
      )}
      {items.length > 0 && <p class="dim keys">{TEXT.keys}</p>}
    </>
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

function Item({ item, isSelected }: { item: WaitingItem; isSelected: boolean }) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isSelected) row.current?.scrollIntoView({ block: 'nearest' });
  }, [isSelected]);
  const { id, kind, title, from, since, node, answer: sent } = item;
  return (
    <li ref={row} class={isSelected ? 'item is-selected' : 'item'} data-kind={kind}>
      <button type="button" class="head" aria-expanded={isSelected} onClick={() => select(id)}>
        <span class="kind warn">
          <span aria-hidden="true">▲</span> {KINDS[kind]}
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
        <span class="title">{title}</span>
        {sent && <Sent sent={sent} />}
      </button>
      {isSelected && <Open item={item} />}
    </li>
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

function Open({ item }: { item: WaitingItem }) {
  const { until, details, diff, actions, kind, id } = item;
  return (
    <div class="open">
      {until !== null && (
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
      {replying.value === id ? <Reply item={item} /> : <Actions item={item} actions={actions} />}
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

function Reply({ item }: { item: WaitingItem }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const send = () => {
    const text = field.current?.value.trim();
    if (text) void answer(item, 'reply', text);
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
        <button type="submit" class="main" disabled={busy.value.has(item.id)}>
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
      </p>
    </form>
  );
}
