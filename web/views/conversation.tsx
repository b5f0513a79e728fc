import { useState } from 'preact/hooks';
import type { A2AEnvelope } from '../../src/mesh/schemas.js';
import type { MailRow } from '../../src/node/control/rows.js';
import { Id, shortAddress } from '../parts/facts.js';
import { Field, Form } from '../parts/form.js';
import { Crumb } from '../parts/table.js';
import { go } from '../route.js';
import { act, tell } from '../store.js';
import { keyOf, useRead } from '../stream.js';
import { MAIL_TEXT } from '../text/mail.js';
import { OPERATOR, Thread, useThread } from './thread.js';

/** A conversation, and the owner's way to take part in it. */
export function Conversation({ id }: { id: string }) {
  const { messages } = useThread(id);
  return (
    <>
      <Crumb place="mail" title={MAIL_TEXT.thread}>
        <Id id={id} />
      </Crumb>
      <Thread id={id} />
      {messages && messages.length > 0 && <Reply messages={messages} />}
    </>
  );
}

/** Answers the open mail of this conversation; without any, the owner writes to the last speaker in a new one. */
function Reply({ messages }: { messages: readonly A2AEnvelope[] }) {
  const { value: inbox } = useRead<readonly MailRow[]>(keyOf('inbox', { as: OPERATOR }));
  const [text, setText] = useState('');
  const [busy, setBusy] = useState(false);
  const open = inbox?.filter(({ id }) => messages.some((message) => message.id === id)).at(-1);
  const last = messages.findLast(({ sender }) => sender !== OPERATOR);
  const to = open?.from ?? last?.sender ?? messages.at(-1)!.recipient;
  if (!inbox || to === OPERATOR) return null;
  const name = shortAddress(to);
  const submit = async () => {
    if (text.trim() === '' || busy) return;
    setBusy(true);
    const sent = await act<{ to: string; thread: string }>('tell', { to, text, ...(open && { replyTo: open.id }) });
    setBusy(false);
    if (!sent) return;
    setText('');
    tell(MAIL_TEXT.sent(sent.to));
    go('mail', sent.thread);
  };
  const label = open ? MAIL_TEXT.reply : MAIL_TEXT.write(name);
  return (
    <Form label={label} busy={busy} submit={() => void submit()} button={MAIL_TEXT.send}>
      <Field label={open ? MAIL_TEXT.yourReply : MAIL_TEXT.yourMessage(name)}>
        <textarea rows={3} maxLength={32_768} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}
