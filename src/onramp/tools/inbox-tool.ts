import { z } from 'zod';
import type { MeshTool } from '../member-context.js';
import { required } from '../member-mail.js';
import { LONGEST_WAIT_S, read } from './arguments.js';

const ids = z.array(z.string().max(64)).max(100).optional();
const Arguments = z.strictObject({
  wait_s: z.int().min(0).max(LONGEST_WAIT_S).optional(),
  done: ids,
  decline: ids,
  limit: z.int().min(1).max(50).optional(),
});

const DEFAULT_LIMIT = 10;
/** Characters of one answer; the rest comes with the next call. */
const MAX_CHARS = 60_000;

export const inboxTool: MeshTool = async (member, args, { number, signal }) => {
  const { wait_s = 0, done = [], decline = [], limit = DEFAULT_LIMIT } = read(Arguments, args);
  const { box, runtime } = member;
  const closing = [
    ...done.map((id) => ({ open: required(box, id), state: 'done' as const })),
    ...decline.map((id) => ({ open: required(box, id), state: 'declined' as const })),
  ];
  for (const { open, state } of closing) await box.end(open, { state });
  let unread = await box.unread(limit);
  if (unread.length === 0 && wait_s > 0) {
    const patience = new AbortController();
    const timer = runtime.setTimer(() => patience.abort(), wait_s * 1_000);
    while (unread.length === 0 && !patience.signal.aborted && !signal.aborted) {
      await box.next(AbortSignal.any([patience.signal, signal]));
      unread = await box.unread(limit);
    }
    timer.cancel();
  }
  let chars = 0;
  const fitting = unread.filter(({ letter }, index) => {
    chars += letter.text.length;
    return index === 0 || chars <= MAX_CHARS;
  });
  const shown = await member.present(fitting, number);
  const closed = closing.length > 0 ? [`${closing.length} closed.`] : [];
  const open = box.unclosed.map(({ held, letter }) => `${held.envelope.id} needs ${letter.needs}`);
  const reminder = open.length > 0 ? [`Open since before: ${open.slice(0, 5).join('; ')}.`] : [];
  const text = [...closed, ...reminder, ...(shown.length > 0 ? shown : ['No new mail.'])].join('\n');
  const messages = fitting.map(({ held }) => held.envelope.id);
  return { text, shown: messages };
};
