import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import { oneLine } from '../mailbox/fence.js';
import { MAX_TEXT_CHARS, NEEDS, type Needs } from '../mailbox/letter.js';
import type { MemberContext, MeshCall, MeshTool } from '../mailbox/member-context.js';
import type { OpenLetter } from '../mailbox/member-mail.js';
import { hasHandler, seesMailOf } from '../mailbox/sees-mail.js';
import { LONGEST_WAIT_S, read } from './arguments.js';

const Arguments = z.strictObject({
  text: z.string().min(1).max(MAX_TEXT_CHARS),
  to: z.string().min(1).max(200).optional(),
  reply_to: z.string().min(1).max(64).optional(),
  needs: z.enum(NEEDS).optional(),
  wait_s: z.int().min(0).max(LONGEST_WAIT_S).optional(),
});

/** A message that needs something and is not read within this time is reported to its sender. */
const READ_WITHIN_MS = 15 * 60_000;

/** What is to be sent, once it is known where. */
interface Outgoing {
  readonly to: string;
  readonly thread: string;
  readonly hops: number;
  readonly inReplyTo: string | undefined;
  /** The open message that this answers. */
  readonly answers: OpenLetter | undefined;
}

export const sendTool: MeshTool = async (member, args, call) => {
  const { text, to, reply_to, needs = 'none', wait_s = 0 } = read(Arguments, args);
  if (to === undefined && reply_to === undefined) {
    throw new EclipticError('INVALID_ARGUMENTS', 'give to or reply_to; nothing was sent');
  }
  const outgoing = reply_to === undefined ? opening(member, to!) : await answer(member, reply_to);
  if (reply_to !== undefined && to !== undefined) checkSame(member, to, outgoing.to);
  member.loops.pass(member.name, outgoing.to, outgoing.hops);
  await member.acquaint(outgoing.to);
  const id = await post(member, outgoing, text, needs);
  const row = { member: member.name, id, peer: outgoing.to, sent: 1, thread: outgoing.thread };
  await member.log.note({ ...row, needs, hops: outgoing.hops, text });
  const reply = wait_s > 0 ? await waitForReply(member, outgoing.thread, wait_s, call) : undefined;
  const { state } = await member.mail.receipt(id);
  const name = member.names.display(outgoing.to);
  const isAwaited = needs !== 'none' || (outgoing.answers !== undefined && outgoing.answers.letter.needs !== 'none');
  const expected = visibility(member, outgoing.to, isAwaited);
  const { texts: answered, shown } = await member.present(reply ? [reply] : [], call.number);
  const said = `${id} to ${name}: ${state}${state === 'stored' || state === 'arrived' ? `; ${expected}` : ''}.`;
  const none = wait_s > 0 && !reply ? ['No answer yet; it will be in mesh_inbox.'] : [];
  return { text: [said, ...none, ...answered].join('\n'), shown };
};

function opening(member: MemberContext, to: string): Outgoing {
  const address = member.names.resolve(to, member.name);
  if (address === member.name) throw new EclipticError('INVALID_ARGUMENTS', 'that is you; nothing was sent');
  return { to: address, thread: member.runtime.id(), hops: 0, inReplyTo: undefined, answers: undefined };
}

/** An answer goes to the writer of the message, and to no other agent. */
function checkSame(member: MemberContext, to: string, writer: string): void {
  if (member.names.resolve(to, member.name) === writer) return;
  const reason = `that message is from ${member.names.display(writer)}, not from ${oneLine(to, 100)}`;
  throw new EclipticError('INVALID_ARGUMENTS', `${reason}; leave out to, or reply_to; nothing was sent`);
}

async function answer(member: MemberContext, id: string): Promise<Outgoing> {
  const open = member.box.find(id);
  if (open) {
    const { envelope } = open.held;
    const thread = envelope.correlationId ?? member.runtime.id();
    // What a person said begins a chain of its own.
    const hops = open.origin === 'human' ? 0 : open.letter.hops + 1;
    return { to: envelope.sender, thread, hops, inReplyTo: id, answers: open };
  }
  const row = await member.log.find(member.name, id);
  if (!row || row.sent === 1) {
    throw new EclipticError('RECEIPT_NOT_FOUND', `no message to you has the id "${id}"; nothing was sent`, { id });
  }
  const thread = row.thread ?? member.runtime.id();
  return { to: row.peer, thread, hops: row.hops + 1, inReplyTo: id, answers: undefined };
}

/** Puts it on disk and on its way; in one step with the end of what it answers, if that was open. */
async function post(member: MemberContext, outgoing: Outgoing, text: string, needs: Needs): Promise<string> {
  const { to, thread, hops, inReplyTo, answers } = outgoing;
  const payload = { text, mesh: { needs, hops, ...(inReplyTo && { inReplyTo }) } };
  if (answers) {
    const envelope = member.agent.answerTo(answers.held.envelope, payload);
    if (envelope) {
      await member.box.end(answers, { state: 'replied', answer: envelope });
      return envelope.id;
    }
  }
  const type = inReplyTo !== undefined ? 'response' : needs === 'reply' ? 'request' : 'notification';
  const watched = needs === 'none' ? {} : { readWithinMs: READ_WITHIN_MS };
  const { messageId } = await member.agent.send(to, payload, { type, thread, durable: true, ...watched });
  if (answers) await member.box.end(answers, { state: 'replied' });
  return messageId!;
}

async function waitForReply(
  { box, runtime }: MemberContext,
  thread: string,
  seconds: number,
  { signal }: MeshCall,
): Promise<OpenLetter | undefined> {
  const patience = new AbortController();
  const timer = runtime.setTimer(() => patience.abort(), seconds * 1_000);
  const over = AbortSignal.any([patience.signal, signal]);
  try {
    for (;;) {
      const unread = await box.unread(Number.POSITIVE_INFINITY);
      const reply = unread.find(({ held }) => held.envelope.correlationId === thread);
      if (reply || over.aborted) return reply;
      await box.next(over);
    }
  } finally {
    timer.cancel();
  }
}

/** What the sender may expect of the recipient. */
function visibility({ registry }: MemberContext, address: string, isAwaited: boolean): string {
  const entry = registry.entry(address);
  if (!entry) return 'away: it waits on disk until they are back';
  const sees = seesMailOf(entry.card);
  // No agent is woken for mail that needs nothing and answers nothing.
  if (sees === 'wakes' && !isAwaited && !hasHandler(entry.card)) return 'they see it when they look';
  return sees === 'wakes'
    ? 'they are woken'
    : sees === 'next_turn'
      ? 'they see it at their next turn'
      : 'they see it when they look';
}
