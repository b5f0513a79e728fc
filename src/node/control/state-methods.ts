import type { Agent } from '../../agent/agent.js';
import type { SharedDocument } from '../../documents/document.js';
import type { Documents } from '../../documents/documents.js';
import { valueAt, writeAt } from '../../documents/paths.js';
import { EclipticError } from '../../runtime/errors.js';
import { timeOfUlid } from '../../runtime/ulid.js';
import { Params } from './params.js';
import type { CallContext, ControlMethod } from './server.js';

/** An open document, as one agent has it. */
export interface DocumentRow {
  readonly name: string;
  readonly agent: string;
  readonly thread: string;
  readonly holds: readonly string[];
  readonly segments: number;
  readonly bytes: number;
  readonly members: readonly string[];
}

/** One step of a document's history. */
export interface HistoryRow {
  readonly author: string;
  readonly session: string;
  readonly number: number;
  /** How many turns of its author it stands for. */
  readonly turns: number;
  readonly bytes: number;
  /** When this node made or got it; null where that was before its last start. */
  readonly at: number | null;
  /** When its author began to write: an earliest time for all of its steps. */
  readonly since: number | null;
  readonly changes: readonly string[];
}

interface StateNode {
  readonly documents: Documents;
  agentById(id: string): Agent;
  /** The owner, as an agent of this node. */
  operator(): Agent;
}

/** How long a command waits for what other members have. */
const CATCH_UP_MS = 2_000;

/** The owner's operations on shared documents, as one of the agents of this node. */
export function stateMethods(node: StateNode): Readonly<Record<string, ControlMethod>> {
  const open = async (read: Params, byOwner = false): Promise<SharedDocument> => {
    const name = read.string('name');
    const { as } = read.optional({ as: 'string' });
    const agentId = as ?? node.documents.list.find(({ document }) => document.name === name)?.agentId;
    if (agentId === undefined && !byOwner) {
      throw new EclipticError('USAGE', `no agent of this node has "${name}" open; say as whom: --as AGENT`);
    }
    const agent = agentId === undefined ? node.operator() : node.agentById(agentId);
    const document = agent.state(name);
    await document.ready;
    await document.caughtUp(CATCH_UP_MS);
    return document;
  };
  return {
    states(): DocumentRow[] {
      return node.documents.list.map(({ agentId, document }) => ({
        name: document.name,
        agent: agentId,
        thread: document.thread,
        holds: Object.keys(document.toJSON()),
        segments: document.segments.length,
        bytes: document.segments.reduce((sum, { update }) => sum + update.length, 0),
        members: [...document.members.keys()],
      }));
    },
    async stateGet(params) {
      const read = new Params(params);
      const { path } = read.optional({ path: 'string' });
      const content = (await open(read)).toJSON();
      return path === undefined ? content : valueAt(content, path);
    },
    async stateSet(params) {
      const read = new Params(params);
      // The owner may begin a document; what others keep of one that is not open here must be read as one of them.
      const document = await open(read, true);
      writeAt(document, read.string('path'), read.value('value'));
      await document.synced();
      return { vector: document.vector };
    },
    async stateHistory(params): Promise<HistoryRow[]> {
      const document = await open(new Params(params));
      const own = node.documents.list.find((other) => other.document === document)!.document;
      return own.segments.map((segment) => {
        const { author, stream, number, turns, update, seenAt: at = null } = segment;
        const session = stream.slice(author.length + 1);
        const when = { at, since: timeOfUlid(session) };
        return { author, session, number, turns, bytes: update.length, ...when, changes: own.changesOf(segment) };
      });
    },
    async stateWatch(params, context) {
      const document = await open(new Params(params));
      return watch(document, context);
    },
  };
}

/** Tells the content now, and after each change, until the caller goes away. */
function watch(document: SharedDocument, { emit, signal }: CallContext): Promise<void> {
  return new Promise((resolve) => {
    const tell = (by: string | null) => emit({ by, content: document.toJSON() });
    const stop = document.onChange(({ by }) => tell(by));
    signal.addEventListener('abort', () => {
      stop();
      resolve();
    });
    tell(null);
  });
}
