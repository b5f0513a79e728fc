import { useState } from 'preact/hooks';
import type { MessageLine } from '../../src/http/dashboard/facts.js';
import { Empty, Stale } from '../parts/empty.js';
import { Clock, Id, shortAddress } from '../parts/facts.js';
import { useOnce } from '../parts/once.js';
import { Unread } from '../parts/read.js';
import { href } from '../route.js';
import { lineKey, messages, messagesError, sampled } from '../store.js';
import { keyOf } from '../stream.js';
import { SEARCH_TEXT } from '../text/messages.js';
import { PARTS_TEXT } from '../text/parts.js';
import { SEND_TEXT } from '../text/send.js';
import { TEXT } from '../text.js';
import { type Draft, sendAddress } from './send.js';

/** The live feed: one line a message, with the router's verdict. With a text, the messages of the journal that have it. */
export function Messages({ rest }: { rest: string }) {
  return rest === '' ? <Feed /> : <Found key={rest} text={rest} />;
}

const PAGE = 100;

/** A search of the journal, newest first, with earlier pages. */
function Found({ text }: { text: string }) {
  const [before, setBefore] = useState<number | undefined>(undefined);
  const { value, error } = useOnce<readonly MessageLine[]>(keyOf('messages', { text, before, limit: PAGE }));
  const lines = value && [...value].reverse();
  const oldest = lines?.at(-1)?.seq ?? undefined;
  return (
    <>
      <p>
        <a href={href('messages')}>{SEARCH_TEXT.back}</a> {SEARCH_TEXT.of(text)}
      </p>
      {lines ? <Stale error={error} /> : <Unread error={error} />}
      {lines?.length === 0 && (
        <Empty command={SEARCH_TEXT.noneCommand}>
          {before === undefined ? SEARCH_TEXT.none : SEARCH_TEXT.noneEarlier}
        </Empty>
      )}
      <ol class="messages" aria-label={SEARCH_TEXT.label}>
        {lines?.map((line) => (
          <Line key={lineKey(line)} line={line} />
        ))}
      </ol>
      <p class="actions padded">
        {lines?.length === PAGE && (
          <button type="button" onClick={() => setBefore(oldest)}>
            {PARTS_TEXT.earlier}
          </button>
        )}
        {before !== undefined && (
          <button type="button" onClick={() => setBefore(undefined)}>
            {PARTS_TEXT.latest}
          </button>
        )}
      </p>
    </>
  );
}

function Feed() {
  const lines = messages.value;
  if (!lines) return <Unread reading={TEXT.messages.loading} />;
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
  const { id, at, from, to, type, code, reason, text, thread } = line;
  const again = draftOf(line);
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
      <span class="text">
        {thread === null ? (
          (reason ?? text ?? TEXT.messages.noText)
        ) : (
          <a class="quiet" href={href('mail', thread)} title={SEARCH_TEXT.thread}>
            {reason ?? text ?? TEXT.messages.noText}
          </a>
        )}
      </span>
      <span>
        <Id id={id} />
        {again !== undefined && (
          <a class="quiet" href={sendAddress(again)} title={SEND_TEXT.again} aria-label={SEND_TEXT.again}>
            ↻
          </a>
        )}
      </span>
    </li>
  );
}

const KINDS: Readonly<Record<string, 'message' | 'request'>> = { request: 'request', notification: 'message' };

/** The form that sends the message again; only a message of this node, whose whole payload is known, can be. */
function draftOf({ from, to, type, text }: MessageLine): Draft | undefined {
  const what = KINDS[type];
  if (what === undefined || text === null || isInternal(text) || text.endsWith('…') || from.includes('@'))
    return undefined;
  return { what, as: from, to, text, type };
}

/** The parts of this product talk to each other in such messages. */
export function isInternal(text: string): boolean {
  return text.startsWith('{"ecliptic/');
}
