import type { MessageLine } from '../../src/http/dashboard/facts.js';
import { keyOf, messages, sampled } from '../store.js';
import { TEXT } from '../text.js';
import { Empty, StalePart } from './empty.js';

/** The live feed: one line a message, with the router's verdict. */
export function Messages() {
  const lines = messages.value;
  if (!lines) return <Empty>{TEXT.messages.loading}</Empty>;
  return (
    <>
      <StalePart part="messages" />
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
            <Line key={keyOf(line)} line={line} />
          ))}
        </ol>
      )}
    </>
  );
}

function Line({ line }: { line: MessageLine }) {
  const { id, at, from, to, type, code, reason, text } = line;
  return (
    <li class="message" title={id}>
      <time class="dim" dateTime={new Date(at).toISOString()}>
        {new Date(at).toLocaleTimeString([], { hour12: false })}
      </time>
      <span class="ends">
        {short(from)} → {short(to)}
      </span>
      <span class="dim">{type}</span>
      <span class={code === null ? 'good' : 'bad'}>
        <span aria-hidden="true">{code === null ? '●' : '✕'}</span>{' '}
        {code === null ? TEXT.messages.delivered : `${TEXT.messages.refused} ${code}`}
      </span>
      <span class="text">{reason ?? text ?? TEXT.messages.noText}</span>
    </li>
  );
}

function short(address: string): string {
  return address.replace(/@([0-9a-f]{8})[0-9a-f]+$/, '@$1');
}
