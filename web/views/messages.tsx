import type { MessageLine } from '../../src/http/dashboard/facts.js';
import { Empty, Stale } from '../parts/empty.js';
import { Clock, Id, shortAddress } from '../parts/facts.js';
import { lineKey, messages, messagesError, sampled } from '../store.js';
import { TEXT } from '../text.js';

/** The live feed: one line a message, with the router's verdict. */
export function Messages() {
  const lines = messages.value;
  if (!lines) return <Empty>{TEXT.messages.loading}</Empty>;
  return (
    <>
      <Stale error={messagesError.value} />
      {sampled.value && (
        <p class="warn" role="status">
          <span aria-hidden="true">◌</span> {TEXT.sampled(sampled.value.shown, sampled.value.total)}
        </p>
      )}
      {lines.length === 0 ? (
        <Empty command={TEXT.messages.noneCommand}>
          {TEXT.messages.none} {TEXT.messages.noneHow}
        </Empty>
      ) : (
        <ol class="messages" aria-label={TEXT.messages.label}>
          {lines.map((line) => (
            <Line key={lineKey(line)} line={line} />
          ))}
        </ol>
      )}
    </>
  );
}

export function Line({ line }: { line: MessageLine }) {
  const { id, at, from, to, type, code, reason, text } = line;
  return (
    <li class="message">
      <Clock at={at} />
      <span class="ends" title={`${from} → ${to}`}>
        {shortAddress(from)} → {shortAddress(to)}
      </span>
      <span class="dim">{type}</span>
      <span class={code === null ? 'good' : 'bad'}>
        <span aria-hidden="true">{code === null ? '●' : '✕'}</span>{' '}
        {code === null ? TEXT.messages.delivered : `${TEXT.messages.refused} ${code}`}
      </span>
      <span class="text">{reason ?? text ?? TEXT.messages.noText}</span>
      <Id id={id} />
    </li>
  );
}
