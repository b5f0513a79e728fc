/**
 * What a node keeps: the tables and their rows, said once. The memory store and the SQLite store are both made from
 * this, and a change to it is a migration.
 */
export type Value = string | number | null;

/** What the router decided about each message of this node, in order. */
export interface JournalRow {
  readonly seq: number;
  readonly at: number;
  readonly envelopeId: string;
  readonly thread: string | null;
  readonly sender: string;
  readonly recipient: string;
  readonly type: string;
  /** The refusal's code; null when it was delivered. */
  readonly code: string | null;
  /** The envelope, and what the decision was made from, as JSON. */
  readonly envelope: string;
  readonly decision: string;
}

/** A durable message on its way from this node, until the recipient's node has it. */
export interface OutboxRow {
  readonly id: string;
  /** Later messages have higher numbers, in one store. */
  readonly number: number;
  /** The recipient's node. */
  readonly node: string;
  readonly envelope: string;
  readonly storedAt: number;
  readonly expiresAt: number | null;
}

/** A durable message for an agent of this node, until the agent is done with it. */
export interface InboxRow {
  readonly id: string;
  /** Later arrivals have higher numbers. */
  readonly number: number;
  /** The sender's node; '' for an agent of this one. */
  readonly node: string;
  readonly recipient: string;
  readonly envelope: string;
  /** The states that it has reached so far, as in a receipt. */
  readonly steps: string;
  readonly expiresAt: number | null;
}

/** What became of a durable message that is neither in the outbox nor in the inbox, as this side knows it. */
export interface ReceiptRow {
  readonly id: string;
  /** The node at the other end of the message; '' when both ends are here. */
  readonly node: string;
  /** Which end is here: `sent`, `received`, or `local` for both. */
  readonly side: string;
  /** Every state that it reached, with its time and reason, as JSON. */
  readonly steps: string;
  /** When this row was written last. */
  readonly at: number;
  /** The number of this news; the other end is told until it has heard of that number. Null: it need not hear of it. */
  readonly news: number | null;
}

/** A durable message that must be read by then, or its sender is told. */
export interface WatchRow {
  readonly id: string;
  readonly sender: string;
  readonly dueAt: number;
}

/** How far something has come. */
export interface CursorRow {
  readonly name: string;
  readonly value: number;
}

/** An agent that was known once: mail may be addressed to it while it is away. */
export interface AddressRow {
  readonly address: string;
  readonly node: string | null;
  readonly card: string;
  readonly seenAt: number;
}

/** The right to answer a durable message. */
export interface PermitRow {
  readonly thread: string;
  readonly opener: string;
  readonly responder: string;
  readonly expiresAt: number;
}

/** What an agent keeps for itself, written in one transaction with the message that caused it. */
export interface AgentStateRow {
  readonly agent: string;
  readonly key: string;
  readonly value: string;
}

/** An event that must not be denied later: each row's digest covers the one before. */
export interface AuditRow {
  readonly seq: number;
  readonly at: number;
  readonly event: string;
  readonly digest: string;
}

/** A task that an outside caller gave to an agent. */
export interface TaskRow {
  readonly id: string;
  readonly owner: string;
  readonly agent: string;
  readonly session: string;
  readonly context: string;
  readonly state: string;
  /** When it came into that state. */
  readonly statusAt: number;
  readonly createdAt: number;
  /** 1 where the agent may be given it again after a restart. */
  readonly resumable: number;
  /** What its sender called the sending: the same again is the same task. */
  readonly sendKey: string;
  /** The task, as JSON. */
  readonly document: string;
}

/** What happened to a task, in order: some events that were kept at once. */
export interface TaskEventsRow {
  readonly task: string;
  /** The number of the first of them. */
  readonly sequence: number;
  readonly events: string;
}

/** Where to tell of a task's events. */
export interface PushConfigRow {
  readonly task: string;
  readonly id: string;
  readonly config: string;
}

/** A piece of work that an agent did for somebody, in a project. */
export interface SessionRow {
  readonly id: string;
  readonly project: string | null;
  readonly agent: string;
  readonly name: string;
  readonly prompt: string;
  /** Who began it: `agent` for another agent. */
  readonly source: string;
  readonly createdAt: number;
}

/** A segment of a shared document, in one agent's replica of it. */
export interface StateSegmentRow {
  readonly thread: string;
  readonly agent: string;
  readonly stream: string;
  /** It stands for the numbers from the first to its own. */
  readonly first: number;
  readonly number: number;
  /** What its author had seen, as JSON. */
  readonly after: string;
  /** The update, in base64. */
  readonly bytes: string;
  readonly signature: string;
  /** Of all that, so that one which is not what was written is known. */
  readonly digest: string;
}

export interface ProjectRow {
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
}

/** What is known of an agent besides its card. */
export interface ProfileRow {
  readonly agent: string;
  readonly defaultProject: string | null;
  /** Names of tools that its own card shows, its persona and its skill bundles, as JSON. */
  readonly toolPermissions: string | null;
  readonly persona: string | null;
  readonly skillBundles: string;
  readonly createdAt: number;
}

/** What a member of the on-ramp wrote or was shown, to look things up in. */
export interface LetterRow {
  readonly member: string;
  readonly id: string;
  /** Later ones have higher numbers. */
  readonly at: number;
  /** The other side's address. */
  readonly peer: string;
  /** 1 for what the member wrote. */
  readonly sent: number;
  readonly thread: string | null;
  readonly needs: string;
  readonly hops: number;
  readonly text: string;
}

/** An agent that comes and goes through the on-ramp, under a name that is its own. */
export interface MemberRow {
  readonly name: string;
  readonly client: string;
  readonly checkout: string;
  readonly seenAt: number;
}

/** Somebody of another owner whose mail is let through. */
export interface AcquaintanceRow {
  readonly address: string;
  readonly at: number;
}

/** A plan that the Ralph loop works through, or has worked through. */
export interface RunRow {
  readonly id: string;
  /** The plan's name, or else its file: what is run under it again goes on with what is done. */
  readonly key: string;
  readonly name: string;
  /** The agent that hands out its tasks. */
  readonly agent: string;
  readonly status: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The plan, and what tells its tasks from those of a changed one, as JSON. */
  readonly document: string;
}

/** What happened to a run, in order. */
export interface RunEventRow {
  readonly run: string;
  readonly sequence: number;
  readonly event: string;
}

/** A durable proposal, as one of its sides knows it. */
export interface ProposalRow {
  /** The agent of this node, and whether it made the proposal (`sent`) or got it (`received`). */
  readonly agent: string;
  readonly side: string;
  /** The agent at the other side. */
  readonly peer: string;
  readonly id: string;
  readonly status: string;
  /** 1 until nothing more is to be told or heard. */
  readonly open: number;
  /** When it changed last. */
  readonly at: number;
  /** Its terms and its state, as JSON. */
  readonly document: string;
}

/** An agent's part in a swarm. */
export interface SwarmRow {
  readonly agent: string;
  readonly swarm: string;
  /** Who brought it in, and whether it may have a seat: a word in what is settled. */
  readonly sponsor: string;
  readonly seat: number;
  /** The latest epoch that it knows, and whom it voted for in it. */
  readonly epoch: number;
  readonly vote: string | null;
  /** What the swarm is, as JSON; of a seat, the log says that. */
  readonly opening: string | null;
  /** When it ended; null while it goes on. */
  readonly endedAt: number | null;
}

/** A record of a swarm, as one of its seats has it. */
export interface SwarmLogRow {
  readonly agent: string;
  readonly swarm: string;
  readonly n: number;
  readonly epoch: number;
  readonly record: string;
}

/** What a worker of a swarm found, until it is settled. */
export interface SwarmFindingRow {
  readonly agent: string;
  readonly swarm: string;
  readonly lease: number;
  readonly subTask: string;
  readonly finding: string;
}

/** Files that somebody has reserved: as their holder's node knows it, or as the node that settles it does. */
export interface LeaseRow {
  /** `held` or `kept`. */
  readonly place: string;
  readonly id: string;
  readonly repository: string;
  readonly glob: string;
  readonly holder: string;
  readonly why: string;
  /** 0 while it is not settled. */
  readonly token: number;
  readonly since: number;
  readonly expiresAt: number;
  /** 1 when its holder was told that it ends soon. */
  readonly warned: number;
}

/** Which of the owner's devices settles the leases of a repository. */
export interface KeeperRow {
  readonly repository: string;
  readonly keeper: string;
}

/** What is to be remembered beside the rows of the other tables, such as where the audit's chain begins. */
export interface MetaRow {
  readonly name: string;
  readonly value: string;
}

export interface Tables {
  journal: JournalRow;
  outbox: OutboxRow;
  inbox: InboxRow;
  receipts: ReceiptRow;
  watches: WatchRow;
  cursors: CursorRow;
  addresses: AddressRow;
  permits: PermitRow;
  agentState: AgentStateRow;
  audit: AuditRow;
  tasks: TaskRow;
  taskEvents: TaskEventsRow;
  pushConfigs: PushConfigRow;
  sessions: SessionRow;
  stateSegments: StateSegmentRow;
  projects: ProjectRow;
  profiles: ProfileRow;
  letters: LetterRow;
  members: MemberRow;
  acquaintances: AcquaintanceRow;
  proposals: ProposalRow;
  runs: RunRow;
  runEvents: RunEventRow;
  swarms: SwarmRow;
  swarmLog: SwarmLogRow;
  swarmFindings: SwarmFindingRow;
  leases: LeaseRow;
  keepers: KeeperRow;
  meta: MetaRow;
}

export type TableName = keyof Tables;

/** The tables whose rows the store numbers. */
export type LogName = 'journal' | 'audit' | 'outbox' | 'inbox';

export interface TableSchema<Row> {
  readonly columns: Readonly<Record<keyof Row & string, 'text' | 'integer' | 'real'>>;
  /**
   * What tells rows apart. A single integer column is numbered by the store when a row gives 0: one more than the
   * highest number ever kept, so that a number is never given twice, even when its row is gone.
   */
  readonly key: readonly (keyof Row & string)[];
  readonly indexes?: readonly (readonly (keyof Row & string)[])[];
}

export const TABLES: { readonly [Name in TableName]: TableSchema<Tables[Name]> } = {
  journal: {
    columns: {
      seq: 'integer',
      at: 'real',
      envelopeId: 'text',
      thread: 'text',
      sender: 'text',
      recipient: 'text',
      type: 'text',
      code: 'text',
      envelope: 'text',
      decision: 'text',
    },
    key: ['seq'],
    indexes: [['thread'], ['envelopeId'], ['at']],
  },
  outbox: {
    columns: {
      id: 'text',
      number: 'integer',
      node: 'text',
      envelope: 'text',
      storedAt: 'real',
      expiresAt: 'real',
    },
    key: ['number'],
    indexes: [['node', 'number'], ['id'], ['expiresAt']],
  },
  inbox: {
    columns: {
      id: 'text',
      number: 'integer',
      node: 'text',
      recipient: 'text',
      envelope: 'text',
      steps: 'text',
      expiresAt: 'real',
    },
    key: ['number'],
    indexes: [['recipient', 'number'], ['id'], ['expiresAt']],
  },
  receipts: {
    columns: { id: 'text', node: 'text', side: 'text', steps: 'text', at: 'real', news: 'integer' },
    key: ['id', 'node', 'side'],
    indexes: [['node', 'news'], ['at']],
  },
  watches: { columns: { id: 'text', sender: 'text', dueAt: 'real' }, key: ['id'], indexes: [['dueAt']] },
  cursors: { columns: { name: 'text', value: 'integer' }, key: ['name'] },
  addresses: { columns: { address: 'text', node: 'text', card: 'text', seenAt: 'real' }, key: ['address'] },
  permits: {
    columns: { thread: 'text', opener: 'text', responder: 'text', expiresAt: 'real' },
    key: ['thread', 'opener', 'responder'],
    indexes: [['expiresAt']],
  },
  agentState: { columns: { agent: 'text', key: 'text', value: 'text' }, key: ['agent', 'key'] },
  audit: { columns: { seq: 'integer', at: 'real', event: 'text', digest: 'text' }, key: ['seq'] },
  tasks: {
    columns: {
      id: 'text',
      owner: 'text',
      agent: 'text',
      session: 'text',
      context: 'text',
      state: 'text',
      statusAt: 'real',
      createdAt: 'real',
      resumable: 'integer',
      sendKey: 'text',
      document: 'text',
    },
    key: ['id'],
    indexes: [['owner', 'statusAt'], ['owner', 'sendKey'], ['state']],
  },
  taskEvents: { columns: { task: 'text', sequence: 'integer', events: 'text' }, key: ['task', 'sequence'] },
  pushConfigs: { columns: { task: 'text', id: 'text', config: 'text' }, key: ['task', 'id'] },
  sessions: {
    columns: {
      id: 'text',
      project: 'text',
      agent: 'text',
      name: 'text',
      prompt: 'text',
      source: 'text',
      createdAt: 'real',
    },
    key: ['id'],
  },
  stateSegments: {
    columns: {
      thread: 'text',
      agent: 'text',
      stream: 'text',
      first: 'integer',
      number: 'integer',
      after: 'text',
      bytes: 'text',
      signature: 'text',
      digest: 'text',
    },
    key: ['thread', 'agent', 'stream', 'number'],
  },
  projects: { columns: { id: 'text', name: 'text', createdAt: 'real' }, key: ['id'] },
  profiles: {
    columns: {
      agent: 'text',
      defaultProject: 'text',
      toolPermissions: 'text',
      persona: 'text',
      skillBundles: 'text',
      createdAt: 'real',
    },
    key: ['agent'],
  },
  letters: {
    columns: {
      member: 'text',
      id: 'text',
      at: 'real',
      peer: 'text',
      sent: 'integer',
      thread: 'text',
      needs: 'text',
      hops: 'integer',
      text: 'text',
    },
    key: ['member', 'id'],
    indexes: [
      ['member', 'at'],
      ['member', 'thread'],
    ],
  },
  members: { columns: { name: 'text', client: 'text', checkout: 'text', seenAt: 'real' }, key: ['name'] },
  acquaintances: { columns: { address: 'text', at: 'real' }, key: ['address'] },
  runs: {
    columns: {
      id: 'text',
      key: 'text',
      name: 'text',
      agent: 'text',
      status: 'text',
      createdAt: 'real',
      updatedAt: 'real',
      document: 'text',
    },
    key: ['id'],
    indexes: [['key', 'id'], ['status']],
  },
  runEvents: { columns: { run: 'text', sequence: 'integer', event: 'text' }, key: ['run', 'sequence'] },
  proposals: {
    columns: {
      agent: 'text',
      side: 'text',
      peer: 'text',
      id: 'text',
      status: 'text',
      open: 'integer',
      at: 'real',
      document: 'text',
    },
    key: ['agent', 'side', 'peer', 'id'],
    indexes: [['open', 'at']],
  },
  swarms: {
    columns: {
      agent: 'text',
      swarm: 'text',
      sponsor: 'text',
      seat: 'integer',
      epoch: 'integer',
      vote: 'text',
      opening: 'text',
      endedAt: 'real',
    },
    key: ['agent', 'swarm'],
  },
  swarmLog: {
    columns: { agent: 'text', swarm: 'text', n: 'integer', epoch: 'integer', record: 'text' },
    key: ['agent', 'swarm', 'n'],
  },
  swarmFindings: {
    columns: { agent: 'text', swarm: 'text', lease: 'integer', subTask: 'text', finding: 'text' },
    key: ['agent', 'swarm', 'lease'],
  },
  leases: {
    columns: {
      place: 'text',
      id: 'text',
      repository: 'text',
      glob: 'text',
      holder: 'text',
      why: 'text',
      token: 'integer',
      since: 'real',
      expiresAt: 'real',
      warned: 'integer',
    },
    key: ['place', 'id'],
  },
  keepers: { columns: { repository: 'text', keeper: 'text' }, key: ['repository'] },
  meta: { columns: { name: 'text', value: 'text' }, key: ['name'] },
};
