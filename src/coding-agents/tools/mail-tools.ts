import type { FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import { cutToAnswer, oneLine, quoted } from '../../mcp/fence.js';
import { handleBytes } from '../../objects/object-files.js';
import { type ObjectRef, withAttachments } from '../../objects/reference.js';
import { EclipticError } from '../../runtime/errors.js';
import { Workspace } from '../../system/files/workspace.js';
import { MAX_TEXT_CHARS, NEEDS, type Needs } from '../mailbox/letter.js';
import { hasHandler, type Member, seesMailOf } from '../mailbox/member.js';
import { type OpenLetter, required } from '../mailbox/member-mail.js';
import type { LetterRow } from '../mailbox/tables.js';
import { taskLine } from './task-tool.js';
import { invalid, LONGEST_WAIT_S, type MeshCall, type MeshTool, read } from './tool.js';

const wait_s = z.int().min(0).max(LONGEST_WAIT_S).optional();
const limit = z.int().min(1).max(50).default(10);
const ids = z.array(z.string().max(64)).max(100).optional();

const MAX_FILES = 8;

const SendArguments = z.strictObject({
  text: z.string().min(1).max(MAX_TEXT_CHARS),
  to: z.string().min(1).max(200).optional(),
  reply_to: z.string().min(1).max(64).optional(),
  needs: z.enum(NEEDS).optional(),
  files: z.array(z.string().min(1).max(4_096)).max(MAX_FILES).optional(),
  wait_s,
});
const InboxArguments = z.strictObject({ wait_s, done: ids, decline: ids, limit });
const LookupArguments = z.strictObject({
  id: z.string().min(1).max(64).optional(),
  query: z.string().min(1).max(200).optional(),
  limit,
});

/** The sender is told when a message that needs something is not read within this time. */
const READ_WITHIN_MS = 15 * 60_000;
const EXCERPT_CHARS = 120;
const UNREAD: ReadonlySet<string> = new Set(['stored', 'relayed', 'arrived']);

interface Outgoing {
  readonly to: string;
  readonly thread: string;
  readonly hops: number;
  readonly inReplyTo: string | undefined;
  /** The message that this one answers, while it is open. */
  readonly answers: OpenLetter | undefined;
}

export const sendTool: MeshTool = async (member, args, call) => {
  const { text, to, reply_to, needs = 'none', files = [], wait_s: seconds = 0 } = read(SendArguments, args);
  if (to === undefined && reply_to === undefined) throw invalid('give to or reply_to; nothing was sent');
  const outgoing = reply_to === undefined ? opening(member, to!) : await reply(member, reply_to);
  if (reply_to !== undefined && to !== undefined) checkWriter(member, to, outgoing.to);
  member.loops.pass(member.name, outgoing.to, outgoing.hops);
  await member.acquaint(outgoing.to);
  const attachments = await attach(member, outgoing.to, files);
  const id = await post(member, outgoing, withAttachments({ text }, attachments), needs);
  const { thread, hops, answers } = outgoing;
  await member.log.noteSent({ member: member.name, id, peer: outgoing.to, thread, needs, hops, text });
  const answer = seconds > 0 ? await waitForReply(member, thread, seconds, call) : undefined;
  const { state } = await member.mail.receipt(id);
  const isAwaited = needs !== 'none' || (answers !== undefined && answers.letter.needs !== 'none');
  const expected = visibility(member, outgoing.to, id, isAwaited);
  const { texts, shown } = await member.present(answer ? [answer] : [], call.number);
  const name = member.names.display(outgoing.to);
  const said = `${id} to ${name}: ${state}${UNREAD.has(state) ? `; ${expected}` : ''}.`;
  const none = seconds > 0 && !answer ? ['No answer yet; it will be in mesh_inbox.'] : [];
  return { text: [said, ...none, ...texts].join('\n'), shown };
};

function opening(member: Member, to: string): Outgoing {
  const address = member.names.resolve(to, member.name);
  if (address === member.name) throw invalid('that is you; nothing was sent');
  return { to: address, thread: member.runtime.id(), hops: 0, inReplyTo: undefined, answers: undefined };
}

/** An answer goes to the writer of the message, and to no other agent. */
function checkWriter(member: Member, to: string, writer: string): void {
  if (member.names.resolve(to, member.name) === writer) return;
  const reason = `that message is from ${member.names.display(writer)}, not from ${oneLine(to, 100)}`;
  throw invalid(`${reason}; leave out to, or reply_to; nothing was sent`);
}

async function reply(member: Member, id: string): Promise<Outgoing> {
  const open = member.box.find(id);
  if (open) {
    const { envelope } = open.held;
    const thread = envelope.correlationId ?? member.runtime.id();
    // A message from a person starts a new reply chain.
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

/** Only files of its checkout: the node can read more than the agent may. */
async function attach({ agent, checkout }: Member, to: string, files: readonly string[]): Promise<ObjectRef[]> {
  const refs: ObjectRef[] = [];
  for (const path of files) {
    const put = (file: FileHandle) => agent.objects.put(handleBytes(file), { to, name: path });
    refs.push(await new Workspace(checkout).use(path, put));
  }
  return refs;
}

/** Stores and sends the message. An answer to an open message closes that message in the same transaction. */
async function post(member: Member, outgoing: Outgoing, said: object, needs: Needs): Promise<string> {
  const { to, thread, hops, inReplyTo, answers } = outgoing;
  const payload = { ...said, mesh: { needs, hops, ...(inReplyTo && { inReplyTo }) } };
  const answer = answers && member.agent.answerTo(answers.held.envelope, payload);
  if (answers && answer) {
    await member.box.end(answers, { state: 'replied', answer });
    return answer.id;
  }
  const type = inReplyTo !== undefined ? 'response' : needs === 'reply' ? 'request' : 'notification';
  const watched = needs === 'none' ? {} : { readWithinMs: READ_WITHIN_MS };
  const { messageId } = await member.agent.send(to, payload, { type, thread, durable: true, ...watched });
  if (answers) await member.box.end(answers, { state: 'replied' });
  return messageId!;
}

async function waitForReply({ box, runtime }: Member, thread: string, seconds: number, { signal }: MeshCall) {
  const patience = new AbortController();
  const timer = runtime.setTimer(() => patience.abort(), seconds * 1_000);
  const over = AbortSignal.any([patience.signal, signal]);
  try {
    for (;;) {
      const unread = await box.unread(Number.POSITIVE_INFINITY);
      const answer = unread.find(({ held }) => held.envelope.correlationId === thread);
      if (answer || over.aborted) return answer;
      await box.next(over);
    }
  } finally {
    timer.cancel();
  }
}

/** When the recipient will see the message. */
function visibility({ registry, mail }: Member, address: string, id: string, isAwaited: boolean): string {
  const entry = registry.entry(address);
  if (!entry) return 'away: it waits on disk until they are back';
  const { state, reason = 'no reason is known' } = entry.card.status ?? {};
  if (state === 'unstaffed' || state === 'tools') return 'they have no worker: it waits on disk until they have one';
  if (state === 'unavailable') return `they are unavailable (${oneLine(reason, 200)}): it waits on disk`;
  if (mail.isUnhandled(address, id)) return 'they have no handler for messages: it waits on disk until they have one';
  const sees = seesMailOf(entry.card);
  if (sees === 'next_turn') return 'they see it at their next turn';
  // No agent is woken for mail that needs nothing and answers nothing.
  const isWoken = sees === 'wakes' && (isAwaited || hasHandler(entry.card));
  return isWoken ? 'they are woken' : 'they see it when they look';
}

export const inboxTool: MeshTool = async (member, args, { number, signal }) => {
  const { wait_s: seconds = 0, done = [], decline = [], limit: most } = read(InboxArguments, args);
  const { box, runtime } = member;
  const closing = [
    ...(await openOf(member, done)).map((open) => ({ open, state: 'done' as const })),
    ...(await openOf(member, decline)).map((open) => ({ open, state: 'declined' as const })),
  ];
  for (const { open, state } of closing) await box.end(open, { state });
  let unread = await box.unread(most);
  // News of tasks ends the wait too: it comes with the answer of any call.
  const isIdle = () => unread.length === 0 && !member.tasks.hasNews;
  if (isIdle() && seconds > 0) {
    const patience = new AbortController();
    const timer = runtime.setTimer(() => patience.abort(), seconds * 1_000);
    while (isIdle() && !patience.signal.aborted && !signal.aborted) {
      const turn = new AbortController();
      const over = AbortSignal.any([patience.signal, signal, turn.signal]);
      await Promise.race([box.next(over), member.tasks.next(over)]);
      turn.abort();
      unread = await box.unread(most);
    }
    timer.cancel();
  }
  const { texts, shown } = await member.present(unread, number);
  const named = done.length + decline.length;
  const closed = named > 0 ? [`${named} closed.`] : [];
  const open = box.unclosed.map(({ held, letter }) => `${held.envelope.id} needs ${letter.needs}`);
  const reminder = open.length > 0 ? [`Still open: ${open.slice(0, 5).join('; ')}.`] : [];
  const text = [...closed, ...reminder, ...(texts.length > 0 ? texts : ['No new mail.'])].join('\n');
  return { text, shown };
};

/** The open messages among these. A message that needed nothing was closed when it was read: naming it is no error. */
async function openOf({ box, log, name }: Member, named: readonly string[]): Promise<OpenLetter[]> {
  const found: OpenLetter[] = [];
  for (const id of named) {
    const row = box.find(id) ? undefined : await log.find(name, id);
    if (row?.sent !== 0) found.push(required(box, id));
  }
  return found;
}

export const lookupTool: MeshTool = async (member, args) => {
  const { id, query, limit: most } = read(LookupArguments, args);
  if (id !== undefined) return lookUp(member, id, most);
  if (query === undefined) throw invalid('give an id or a query');
  const rows = await member.log.search(member.name, query, most);
  return { text: rows.length === 0 ? 'Nothing found.' : excerpts(member, rows) };
};

async function lookUp(member: Member, id: string, most: number) {
  const row = await member.log.find(member.name, id);
  const receipt = await member.mail.receipt(id).catch(() => undefined);
  // A member that knows the id of another's message still cannot look it up.
  const mine = row !== undefined || member.box.find(id) !== undefined;
  const task = mine ? undefined : taskLine(member, id);
  if (task !== undefined) return { text: task };
  if (!mine) throw new EclipticError('RECEIPT_NOT_FOUND', `no message or task of yours has the id "${id}"`, { id });
  const story =
    receipt?.story.map(({ state, reason }) => (reason ? `${state} (${oneLine(reason, 200)})` : state)) ?? [];
  const thread = row?.thread ? await member.log.thread(member.name, row.thread, most) : [];
  const others = thread.filter((other) => other.id !== id);
  const text = [
    ...(row ? [`${whose(member, row)}.`] : []),
    ...(story.length > 0 ? [`State: ${story.join(' → ')}.`] : []),
    ...(row
      ? [row.sent ? 'You wrote:' : 'They wrote:', quoted(cutToAnswer(row.text), member.mark())]
      : ['Not read yet; mesh_inbox shows it.']),
    ...(others.length > 0 ? ['In the same thread:', excerpts(member, others)] : []),
  ].join('\n');
  return { text };
}

/** One line for each message, in one fence: each line begins with an id, and none can be forged, since line ends are gone. */
function excerpts(member: Member, rows: readonly LetterRow[]): string {
  const lines = rows.map((row) => `${whose(member, row)}: ${oneLine(row.text, EXCERPT_CHARS)}`);
  return quoted(lines.join('\n'), member.mark());
}

function whose({ names }: Member, { id, sent, peer }: LetterRow): string {
  return `${id} ${sent ? 'to' : 'from'} ${names.display(peer)}`;
}
