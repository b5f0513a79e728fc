import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { LetterRow } from '../../store/tables.js';
import { oneLine, quoted } from '../mailbox/fence.js';
import type { MemberContext, MeshTool } from '../mailbox/member-context.js';
import { cutToAnswer } from '../mailbox/message-parts.js';
import { read } from './arguments.js';
import { taskLine } from './task-tool.js';

const Arguments = z.strictObject({
  id: z.string().min(1).max(64).optional(),
  query: z.string().min(1).max(200).optional(),
  limit: z.int().min(1).max(50).optional(),
});
const DEFAULT_LIMIT = 10;
const EXCERPT_CHARS = 120;

export const lookupTool: MeshTool = async (member, args) => {
  const { id, query, limit = DEFAULT_LIMIT } = read(Arguments, args);
  if (id !== undefined) return byId(member, id, limit);
  if (query === undefined) throw new EclipticError('INVALID_ARGUMENTS', 'give an id or a query');
  const rows = await member.log.search(member.name, query, limit);
  return { text: rows.length === 0 ? 'Nothing found.' : rows.map((row) => excerpt(member, row)).join('\n') };
};

async function byId(member: MemberContext, id: string, limit: number) {
  const row = await member.log.find(member.name, id);
  const receipt = await member.mail.receipt(id).catch(() => undefined);
  // Another's mail is not looked up, even by one who knows its id.
  const mine = row !== undefined || member.box.find(id) !== undefined;
  const task = mine ? undefined : taskLine(member, id);
  if (task !== undefined) return { text: task };
  if (!mine) throw new EclipticError('RECEIPT_NOT_FOUND', `no message or task of yours has the id "${id}"`, { id });
  const story =
    receipt?.story.map(({ state, reason }) => (reason ? `${state} (${oneLine(reason, 200)})` : state)) ?? [];
  const thread = row?.thread ? await member.log.thread(member.name, row.thread, limit) : [];
  const others = thread.filter((other) => other.id !== id).map((other) => excerpt(member, other));
  const text = [
    ...(row ? [excerpt(member, row)] : []),
    ...(story.length > 0 ? [`State: ${story.join(' → ')}.`] : []),
    ...(row
      ? [row.sent ? 'You wrote:' : 'They wrote:', quoted(cutToAnswer(row.text), member.mark())]
      : ['Not read yet; mesh_inbox shows it.']),
    ...(others.length > 0 ? ['In the same thread:', ...others] : []),
  ].join('\n');
  return { text };
}

function excerpt({ names }: MemberContext, { id, sent, peer, text }: LetterRow): string {
  return `${id} ${sent ? 'to' : 'from'} ${names.display(peer)}: ${oneLine(text, EXCERPT_CHARS)}`;
}
