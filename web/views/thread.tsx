import { useState } from 'preact/hooks';
import type { A2AEnvelope } from '../../src/mesh/schemas.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, Clock, Id, State } from '../parts/facts.js';
import { Payload } from '../parts/payload.js';
import { Unread } from '../parts/read.js';
import { keyOf, useRead } from '../stream.js';
import { MAIL_TEXT } from '../text/mail.js';
import { PARTS_TEXT } from '../text/parts.js';

/** Messages on one page of a conversation. */
const PAGE = 50;
/** Receipts of the latest messages that are followed. */
const RECEIPTS = 3;
export const OPERATOR = 'operator';

/** The messages of a conversation, the latest page first; oldest on top. */
export function Thread({ id }: { id: string }) {
  const [back, setBack] = useState(1);
  const { messages, error } = useThread(id, back);
  if (!messages) return <Unread error={error} />;
  if (messages.length === 0 && back === 1) {
    return (
      <Empty command={MAIL_TEXT.noMessagesCommand}>
        {MAIL_TEXT.noMessages} {MAIL_TEXT.noMessagesHow}
      </Empty>
    );
  }
  const own = messages.filter(({ sender, metadata }) => sender === OPERATOR && metadata?.durable).slice(-RECEIPTS);
  return (
    <>
      <Stale error={error} />
      <p class="actions padded">
        {messages.length === PAGE && (
          <button type="button" onClick={() => setBack(back + 1)}>
            {PARTS_TEXT.earlier}
          </button>
        )}
        {back > 1 && (
          <button type="button" onClick={() => setBack(1)}>
            {PARTS_TEXT.latest}
          </button>
        )}
      </p>
      <ol class="talk" aria-label={MAIL_TEXT.thread}>
        {messages.map((message) => (
          <Said key={message.id} message={message} withReceipt={own.includes(message)} />
        ))}
      </ol>
    </>
  );
}

/** A page of a conversation; the first has the latest messages. */
export function useThread(id: string, back = 1): { messages: readonly A2AEnvelope[] | undefined; error?: string } {
  const key = keyOf('thread', { id, from: -PAGE * back, limit: PAGE });
  const { value, error } = useRead<readonly A2AEnvelope[]>(key);
  return { messages: value, ...(error !== undefined && { error }) };
}

function Said({ message, withReceipt }: { message: A2AEnvelope; withReceipt: boolean }) {
  const { id, sender, recipient, type, payload, timestamp } = message;
  return (
    <li class={sender === OPERATOR ? 'is-own' : ''}>
      <p class="said-head">
        <Clock at={timestamp} /> <AgentName address={sender} /> → <AgentName address={recipient} />{' '}
        <span class="dim">{type}</span> <Id id={id} /> {withReceipt && <ReceiptState id={id} />}
      </p>
      <Payload value={payload} />
    </li>
  );
}

/** How far a durable message has come. */
function ReceiptState({ id }: { id: string }) {
  const { value } = useRead<{ readonly state: string }>(keyOf('receipt', { id }));
  return value ? <State state={value.state} /> : null;
}
