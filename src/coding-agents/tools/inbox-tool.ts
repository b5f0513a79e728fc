import { z } from 'zod';
import type { MemberContext, MeshTool } from '../mailbox/member-context.js';
import { type OpenLetter, required } from '../mailbox/member-mail.js';
import { LONGEST_WAIT_S, read } from './arguments.js';

const ids = z.array(z.string().max(64)).max(100).optional();
const Arguments = z.strictObject({
  wait_s: z.int().min(0).max(LONGEST_WAIT_S).optional(),
  done: ids,
  decline: ids,
  limit: z.int().min(1).max(50).optional(),
});

const DEFAULT_LIMIT = 10;

export const inboxTool: MeshTool = async (member, args, { number, signal }) => {
  const { wait_s = 0, done = [], decline = [], limit = DEFAULT_LIMIT } = read(Arguments, args);
  const { box, runtime } = member;
  const closing = [
    ...(await openOf(member, done)).map((open) => ({ open, state: 'done' as const })),
    ...(await openOf(member, decline)).map((open) => ({ open, state: 'declined' as const })),
  ];
  for (const { open, state } of closing) await box.end(open, { state });
  let unread = await box.unread(limit);
  // An offered task, or the end of one, is told with the answer of any call.
  const isIdle = () => unread.length === 0 && !member.tasks.hasNews;
  if (isIdle() && wait_s > 0) {
    const patience = new AbortController();
    const timer = runtime.setTimer(() => patience.abort(), wait_s * 1_000);
    while (isIdle() && !patience.signal.aborted && !signal.aborted) {
      const turn = new AbortController();
      const over = AbortSignal.any([patience.signal, signal, turn.signal]);
      await Promise.race([box.next(over), member.tasks.next(over)]);
      turn.abort();
      unread = await box.unread(limit);
    }
    timer.cancel();
  }
  const { texts, shown } = await member.present(unread, number);
  const named = done.length + decline.length;
  const closed = named > 0 ? [`${named} closed.`] : [];
  const open = box.unclosed.map(({ held, letter }) => `${held.envelope.id} needs ${letter.needs}`);
  const reminder = open.length > 0 ? [`Open since before: ${open.slice(0, 5).join('; ')}.`] : [];
  const text = [...closed, ...reminder, ...(texts.length > 0 ? texts : ['No new mail.'])].join('\n');
  return { text, shown };
};

/** Those of these messages that are open. One that needed nothing is closed since it was read: to name it is no fault. */
async function openOf({ box, log, name }: MemberContext, ids: readonly string[]): Promise<OpenLetter[]> {
  const found: OpenLetter[] = [];
  for (const id of ids) {
    const row = box.find(id) ? undefined : await log.find(name, id);
    if (row?.sent !== 0) found.push(required(box, id));
  }
  return found;
}
