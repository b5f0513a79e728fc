import { z } from 'zod';
import { cutToAnswer, oneLine, quoted } from '../../mcp/fence.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Member } from '../mailbox/member.js';
import type { GivenTask, OfferedTask } from '../mailbox/member-tasks.js';
import { type Answer, invalid, type MeshTool, read } from './tool.js';

/** Fits into one answer of every client. */
const MAX_DETAIL_CHARS = 20_000;

const Arguments = z.strictObject({
  action: z.enum(['offer', 'accept', 'counter', 'decline', 'progress', 'done', 'failed', 'cancel', 'list']),
  id: z.string().min(1).max(64).optional(),
  to: z.string().min(1).max(200).optional(),
  title: z.string().min(1).max(1_000).optional(),
  detail: z.string().max(MAX_DETAIL_CHARS).optional(),
  due_s: z.int().min(1).max(86_400).optional(),
});
type Arguments = z.infer<typeof Arguments>;

/** Long, because a coding agent may look at its mail rarely. */
const DEFAULT_DUE_S = 3_600;
const TITLE_CHARS = 120;

export const taskTool: MeshTool = async (member, args) => {
  const given = read(Arguments, args);
  if (given.action === 'offer') return offer(member, given);
  if (given.action === 'list') return list(member);
  const { id } = given;
  if (id === undefined) throw invalid('give the id of the task; nothing was done');
  return { text: await act(member, given, id) };
};

async function offer(member: Member, { to, title, detail, due_s }: Arguments): Promise<Answer> {
  if (to === undefined || title === undefined) throw invalid('an offer needs to and title; nothing was offered');
  const { negotiation } = await member.tasks.offer({
    ...recipient(member, to),
    taskDescription: title,
    deadlineMs: (due_s ?? DEFAULT_DUE_S) * 1_000,
    ...(detail !== undefined && { input: detail }),
  });
  const { proposalId: id } = negotiation.proposal;
  const name = negotiation.to === undefined ? to : member.names.display(negotiation.to);
  return { text: `Task ${id} offered to ${name}; they must answer next.` };
}

/** The agent of that name, or else any agent with that capability. */
function recipient({ names, registry, name }: Member, to: string) {
  try {
    return { to: names.resolve(to, name) };
  } catch (error) {
    const unknown = error instanceof EclipticError && error.code === 'AGENT_NOT_FOUND';
    if (unknown && registry.findByCapability(to, name).length > 0) return { requiredCapabilities: [to] };
    throw error;
  }
}

async function act(member: Member, { action, detail }: Arguments, id: string): Promise<string> {
  const { tasks, names } = member;
  switch (action) {
    case 'accept': {
      const task = tasks.taken(id);
      task.engagement = await task.proposal.accept();
      const { input, from } = task.proposal;
      return `Task ${id} is yours. Tell ${names.display(from)} with progress, done or failed.${details(member, input)}`;
    }
    case 'counter':
      await tasks.taken(id).proposal.reject(`counter: ${detail ?? ''}`);
      tasks.end(id, 'countered');
      return `Task ${id}: your counter-proposal was sent; they must act next.`;
    case 'decline':
      await tasks.taken(id).proposal.reject(detail ?? 'declined');
      tasks.end(id, 'declined');
      return `Task ${id} declined.`;
    case 'progress':
      tasks.work(id).progress(detail ?? '');
      return `Task ${id}: progress sent.`;
    case 'done':
      await tasks.work(id).complete(detail ?? '');
      tasks.end(id, 'done');
      return `Task ${id} done.`;
    case 'failed':
      await tasks.work(id).fail(new EclipticError('HANDLER_FAILED', detail ?? 'it failed'));
      tasks.end(id, 'failed');
      return `Task ${id} reported as failed.`;
    default:
      tasks.own(id).negotiation.withdraw(detail);
      return `Task ${id} cancelled.`;
  }
}

function list(member: Member): Answer {
  const { tasks } = member;
  const open = [...tasks.offered].filter(([, { ended }]) => ended === undefined);
  const lines = [
    ...open.map(([id, task]) => offeredLine(member, id, task)),
    ...[...tasks.given].map(([id, task]) => givenLine(member, id, task)),
  ];
  return { text: lines.join('\n') || 'No tasks.' };
}

/** One line about a task that this member offered or was offered. */
export function taskLine(member: Member, id: string): string | undefined {
  const { tasks } = member;
  const offered = tasks.offered.get(id);
  if (offered) return `Task ${offeredLine(member, id, offered)}`;
  const given = tasks.given.get(id);
  return given && `Task ${givenLine(member, id, given)}`;
}

function offeredLine(member: Member, id: string, { proposal, engagement, ended }: OfferedTask): string {
  const state = ended ?? (engagement ? 'yours' : 'waits for your answer');
  const title = oneLine(proposal.proposal.taskDescription, TITLE_CHARS);
  return `${id} from ${member.names.display(proposal.from)} (${state}): ${title}${details(member, proposal.input)}`;
}

function givenLine(member: Member, id: string, { negotiation, outcome, progress, branch }: GivenTask): string {
  const { status, rejectionReason, taskDescription } = negotiation.proposal;
  const to = negotiation.to === undefined ? 'no agent yet' : member.names.display(negotiation.to);
  const state = outcome?.state ?? progress ?? status;
  const work = branch === undefined ? '' : `, ${branch}`;
  const why = rejectionReason === undefined ? '' : ` (${oneLine(rejectionReason, 200)})`;
  const words = outcome?.state === 'done' ? `\n${quoted(cutToAnswer(outcome.text), member.mark())}` : '';
  return `${id} to ${to}: ${state}${work}${why}: ${oneLine(taskDescription, TITLE_CHARS)}${words}`;
}

/** The input of an offer, which a peer wrote. */
function details(member: Member, input: unknown): string {
  if (input === undefined || input === null) return '';
  return `\n${quoted(cutToAnswer(typeof input === 'string' ? input : JSON.stringify(input)), member.mark())}`;
}
