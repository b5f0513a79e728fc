import { oneLine } from '../mcp/fence.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { CodingAgents, TaskLine } from './coding-agents.js';
import { seesMailOf } from './mailbox/member.js';

/** A mailbox of this node, or an agent of another node. */
export interface AgentLine {
  readonly name: string;
  readonly state: 'here' | 'away' | 'remote';
  readonly seesMail: string;
  readonly unread: number;
  /** Messages that were read and not closed. */
  readonly open: number;
  readonly summary: string;
}

/** The coding agents, their tasks, leases and mail, as `ecliptic watch` shows them. */
export type Overview = Awaited<ReturnType<typeof overview>>;

const MOST_UNREAD = 1_000;
const SUMMARY_CHARS = 60;
const MOST_FOR_YOU = 50;
const TEXT_CHARS = 200;

export async function overview(codingAgents: CodingAgents, registry: AgentRegistry) {
  const { names, leases, present } = codingAgents;
  const here = new Map(present.map((member) => [member.name, member]));
  const members = [...codingAgents.mailboxes].map(async ([name, box]): Promise<AgentLine> => {
    const member = here.get(name);
    const unread = (await box.unread(MOST_UNREAD)).length;
    const about = { unread, open: box.unclosed.length, summary: member ? member.agent.card.description : '' };
    return { name, state: member ? 'here' : 'away', seesMail: member?.seesMail ?? 'offline', ...about };
  });
  const remote = registry.getRemoteCards().map((card): AgentLine => {
    const { id, node, description } = card;
    const about = { unread: 0, open: 0, summary: oneLine(description, SUMMARY_CHARS) };
    return { name: `${id}@${node!.slice(0, 8)}`, state: 'remote', seesMail: seesMailOf(card), ...about };
  });
  const given = present.flatMap(({ name: from, tasks }): TaskLine[] =>
    [...tasks.given].map(([id, { negotiation, outcome }]) => {
      const to = negotiation.to === undefined ? '?' : names.display(negotiation.to);
      const { status, taskDescription } = negotiation.proposal;
      return { id, from, to, state: outcome?.state ?? status, title: oneLine(taskDescription, SUMMARY_CHARS) };
    }),
  );
  const known = new Set(given.map(({ id }) => id));
  return {
    agents: [...(await Promise.all(members)), ...remote],
    tasks: [...given, ...(await codingAgents.storedTasks()).filter(({ id }) => !known.has(id))],
    leases: (await leases.list()).map(({ holder, glob, repository, label }) => {
      return { name: names.display(holder), glob, repositoryName: leases.nameOf(repository), label };
    }),
    held: (await codingAgents.held()).map(({ id, from, to }) => ({ id, from, to })),
    /** Messages of agents to the owner. */
    forYou: (await codingAgents.forOwner(MOST_FOR_YOU)).map(({ held, from, letter }) => {
      const text = oneLine(letter.text, TEXT_CHARS);
      return { id: held.envelope.id, from: names.display(from), needs: letter.needs, text };
    }),
  };
}
