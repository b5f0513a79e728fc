import type { AgentRegistry } from '../mesh/registry.js';
import type { CodingAgents, TaskLine } from './coding-agents.js';
import { oneLine } from './mailbox/fence.js';
import { seesMailOf } from './mailbox/member.js';

/** A mailbox of this node, or an agent of another node. */
interface AgentLine {
  readonly name: string;
  readonly state: 'here' | 'away' | 'remote';
  readonly seesMail: string;
  readonly unread: number;
  /** Messages that were read and not closed. */
  readonly open: number;
  readonly summary: string;
}

/** The data of `ecliptic watch`. */
export interface Overview {
  readonly agents: readonly AgentLine[];
  readonly tasks: readonly TaskLine[];
  readonly leases: readonly {
    readonly name: string;
    readonly glob: string;
    readonly repositoryName: string;
    readonly label: string;
  }[];
  readonly held: readonly { readonly id: string; readonly from: string; readonly to: string }[];
  /** Messages of agents to the owner. */
  readonly forYou: readonly {
    readonly id: string;
    readonly from: string;
    readonly needs: string;
    readonly text: string;
  }[];
}

const MOST_UNREAD = 1_000;
const SUMMARY_CHARS = 60;
const MOST_FOR_YOU = 50;
const TEXT_CHARS = 200;

export async function overview(codingAgents: CodingAgents, registry: AgentRegistry): Promise<Overview> {
  const present = new Map(codingAgents.present.map((member) => [member.name, member]));
  const members = [...codingAgents.mailboxes].map(async ([name, box]): Promise<AgentLine> => {
    const member = present.get(name);
    const unread = (await box.unread(MOST_UNREAD)).length;
    const about = { unread, open: box.unclosed.length, summary: member ? member.agent.card.description : '' };
    return { name, state: member ? 'here' : 'away', seesMail: member?.seesMail ?? 'offline', ...about };
  });
  const remote = registry.getRemoteCards().map((card): AgentLine => {
    const { id, node, description } = card;
    const about = { unread: 0, open: 0, summary: oneLine(description, SUMMARY_CHARS) };
    return { name: `${id}@${node!.slice(0, 8)}`, state: 'remote', seesMail: seesMailOf(card), ...about };
  });
  const given = codingAgents.present.flatMap(({ name, tasks: own, names }): TaskLine[] =>
    [...own.given].map(([id, { negotiation, outcome }]) => ({
      id,
      from: name,
      to: negotiation.to === undefined ? '?' : names.display(negotiation.to),
      state: outcome?.state ?? negotiation.proposal.status,
      title: oneLine(negotiation.proposal.taskDescription, SUMMARY_CHARS),
    })),
  );
  const known = new Set(given.map(({ id }) => id));
  const tasks = [...given, ...(await codingAgents.storedTasks()).filter(({ id }) => !known.has(id))];
  const held = (await codingAgents.held()).map(({ id, from, to }) => ({ id, from, to }));
  const leases = (await codingAgents.leases.list()).map(({ holder, glob, repository, label }) => {
    const repositoryName = codingAgents.leases.nameOf(repository);
    return { name: codingAgents.names.display(holder), glob, repositoryName, label };
  });
  const forYou = (await codingAgents.forOwner(MOST_FOR_YOU)).map(({ held: mail, from, letter }) => {
    const text = oneLine(letter.text, TEXT_CHARS);
    return { id: mail.envelope.id, from: codingAgents.names.display(from), needs: letter.needs, text };
  });
  return { agents: [...(await Promise.all(members)), ...remote], tasks, leases, held, forYou };
}
