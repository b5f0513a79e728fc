import type { Agent } from '../../agent/agent.js';
import type { Mail } from '../../mail/mail.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import type { A2AEnvelope } from '../../mesh/schemas.js';
import { planThreads } from '../../plans/plan-threads.js';
import type { JournalRow } from '../../store/tables.js';
import { fitting } from './page.js';
import { Params } from './params.js';
import type { RecordsOf } from './record-methods.js';
import type { ControlMethod } from './server.js';

interface ThreadNode {
  readonly records: RecordsOf | undefined;
  readonly mail: Mail | undefined;
  readonly agents: readonly Agent[];
  /** The messages of a thread, from the journal where memory has them no more. */
  thread(id: string): readonly A2AEnvelope[] | Promise<readonly A2AEnvelope[]>;
}

/** Messages of a run's threads that are shown at most. */
const MOST = 1_000;

/** Conversations, for the owner: by their own id, or by that of a proposal, a run or a message in them. */
export function threadMethods(node: ThreadNode): Readonly<Record<string, ControlMethod>> {
  const proposed = (wanted: (proposal: { proposalId: string; correlationId: string }) => boolean) =>
    node.agents.flatMap(({ proposalSides }) =>
      proposalSides.filter(({ proposal }) => wanted(proposal)).map(({ proposal }) => proposal.correlationId),
    );
  const remembered = async (threads: Iterable<string>) =>
    (await Promise.all([...new Set(threads)].map((thread) => node.thread(thread)))).flat();
  return {
    async thread(params) {
      const id = new Params(params).string('id');
      const { journal } = node.records ?? {};
      const own = await node.thread(id);
      if (own.length > 0) return own;
      const known = await remembered(proposed(({ proposalId }) => proposalId === id));
      if (known.length > 0) return known;
      const prefix = planThreads(id);
      const ofRun = await remembered(proposed(({ correlationId }) => correlationId.startsWith(prefix)));
      if (ofRun.length > 0 || !journal) return ofRun;
      const [found] = await journal.about(id);
      const thread = found?.thread ?? id;
      const rows = found && found.thread === null ? [found] : await journal.search({ thread, limit: MOST });
      const all = rows.length > 0 ? rows : await journal.beginningWith(prefix, MOST);
      return fitting(await Promise.all(all.map(envelopeOf)), (envelope) => JSON.stringify(envelope).length);
    },
  };

  /** The journal has no bodies of durable messages: those are where the messages wait. */
  async function envelopeOf({ envelopeId, envelope, at }: JournalRow): Promise<A2AEnvelope> {
    const kept = await node.mail?.waiting(envelopeId);
    return { ...unpackEnvelope(JSON.parse(kept ?? envelope)), timestamp: at } as A2AEnvelope;
  }
}
