import type { Agent } from '../../agent/agent.js';
import type { SharedDocument } from '../../documents/document.js';
import { valueAt, writeAt } from '../../documents/paths.js';
import { aborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { timeOfUlid } from '../../runtime/ulid.js';
import type { ControlContext, Handlers } from './context.js';

/** How long a command waits for updates of other members. */
const CATCH_UP_MS = 2_000;

/** The owner's operations on shared documents, as one of the agents of this node. */
export function documentMethods({
  node,
}: {
  node: Pick<ControlContext['node'], 'documents' | 'agentById' | 'operator'>;
}) {
  const opened = async (agent: Agent, name: string): Promise<SharedDocument> => {
    const document = agent.state(name);
    await document.ready;
    await document.caughtUp(CATCH_UP_MS);
    return document;
  };
  const openers = (name: string) => node.documents.list.filter(({ document }) => document.name === name);
  const open = ({ name, as = openers(name)[0]?.agentId }: { name: string; as?: string }) => {
    if (as !== undefined) return opened(node.agentById(as), name);
    throw new EclipticError('USAGE', `no agent of this node has "${name}" open; name the reader with --as AGENT`);
  };
  /** The owner writes as the operator, except into a document of a sandbox, which only its members have open. */
  const openToWrite = ({ name, as }: { name: string; as?: string }) => {
    const known = openers(name);
    const operator = node.operator();
    const thread = node.documents.threadFor(operator.id, name);
    const isOwners = known.length === 0 || known.some(({ document }) => document.thread === thread);
    return as === undefined && isOwners ? opened(operator, name) : open({ name, as });
  };
  return {
    states() {
      return node.documents.list.map(({ agentId, document }) => ({
        name: document.name,
        agent: agentId,
        thread: document.thread,
        holds: Object.keys(document.toJSON()),
        ...document.size,
        members: [...document.members.keys()],
      }));
    },
    async stateGet({ path, ...which }) {
      const content = (await open(which)).toJSON();
      return path === undefined ? content : valueAt(content, path);
    },
    async stateSet({ path, value, ...which }) {
      const document = await openToWrite(which);
      writeAt(document, path, value);
      await document.synced();
      return { vector: document.vector };
    },
    async stateHistory(which) {
      const document = await open(which);
      const own = node.documents.list.find((other) => other.document === document)!.document;
      return own.segments.map((segment) => {
        const { author, stream, number, turns, update, seenAt: at = null } = segment;
        const session = stream.slice(author.length + 1);
        const when = { at, since: timeOfUlid(session) };
        return { author, session, number, turns, bytes: update.length, ...when, changes: own.changesOf(segment) };
      });
    },
    async stateWatch(which, { emit, signal }) {
      const document = await open(which);
      const stop = document.onChange(({ by }) => emit({ by, content: document.toJSON() }));
      emit({ by: null, content: document.toJSON() });
      await aborted(signal);
      stop();
    },
  } satisfies Partial<Handlers>;
}
