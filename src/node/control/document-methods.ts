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
  const open = async ({ name, as }: { name: string; as?: string }, byOwner = false): Promise<SharedDocument> => {
    const agentId = as ?? node.documents.list.find(({ document }) => document.name === name)?.agentId;
    if (agentId === undefined && !byOwner) {
      throw new EclipticError('USAGE', `no agent of this node has "${name}" open; name the reader with --as AGENT`);
    }
    const agent = agentId === undefined ? node.operator() : node.agentById(agentId);
    const document = agent.state(name);
    await document.ready;
    await document.caughtUp(CATCH_UP_MS);
    return document;
  };
  return {
    states() {
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
    async stateGet({ path, ...which }) {
      const content = (await open(which)).toJSON();
      return path === undefined ? content : valueAt(content, path);
    },
    async stateSet({ path, value, ...which }) {
      // The owner may create a document; one that is not open here can be read only as one of its members.
      const document = await open(which, true);
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
