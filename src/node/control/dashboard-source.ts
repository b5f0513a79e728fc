import { OWNER } from '../../coding-agents/mailbox/letter.js';
import type { AgentView, DashboardSource, MessageLine } from '../../http/dashboard/facts.js';
import type { JournalRow } from '../../mesh/audit/tables.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import { VERSION } from '../../runtime/package.js';
import { cutText } from '../../runtime/text.js';
import { checkParams, type TailEvent } from './api.js';
import type { ControlContext, Handlers } from './context.js';
import type { CallContext } from './server.js';

type Used = Pick<Handlers, 'agents' | 'providers' | 'log' | 'tail' | 'waiting' | 'waiting.answer'>;

const TEXT_CHARS = 300;

/** The page's reads and answers, by the operations that the commands use. */
export function dashboardSource(
  { node, codingAgents }: Pick<ControlContext, 'node' | 'codingAgents'>,
  on: Used,
): DashboardSource {
  const { registry, network } = node;
  const calling = (signal: AbortSignal, emit: (event: TailEvent) => void = () => {}): CallContext<TailEvent> => {
    return { emit, signal, drained: () => Promise.resolve() };
  };
  const alone = calling(new AbortController().signal) as CallContext<never>;
  return {
    node: () => ({ node: registry.nodeKey ?? '', name: network?.name ?? '', version: VERSION }),
    waiting: async () => on.waiting({}, alone),
    answer: async (id, action, text) =>
      on['waiting.answer'](checkParams('waiting.answer', { id, action, text }), alone),
    async agents() {
      const providers = await on.providers({}, alone);
      const connected = new Set(codingAgents.present.map(({ name }) => name));
      return (await on.agents({}, alone)).map((row): AgentView => {
        const { failure: _, origin: __, ...about } = row;
        const own = row.node === null ? providers.filter(({ id, pool }) => id === row.id || pool === row.id) : [];
        const card = registry.getById(row.node === null ? row.id : `${row.id}@${row.node}`);
        return {
          ...about,
          fix: card?.status?.fix ?? null,
          workers: [
            ...own.map(({ id, type, state }) => ({ id, type, state })),
            ...(row.node === null && row.id === OWNER ? [{ id: OWNER, type: 'person', state: row.state }] : []),
            ...(row.node === null && connected.has(row.id)
              ? [{ id: row.id, type: 'coding agent', state: row.state }]
              : []),
          ],
          load: {
            queued: row.node === null ? (registry.entry(row.id)?.mailbox?.load ?? 0) : 0,
            working: own.reduce((sum, { inFlight }) => sum + inFlight, 0),
          },
        };
      });
    },
    async messages(limit) {
      if (!node.records) return [];
      const rows: JournalRow[] = [];
      while (rows.length < limit) {
        const page = await on.log({ before: rows[0]?.seq, limit: limit - rows.length }, alone);
        if (page.length === 0) break;
        rows.unshift(...page);
      }
      return rows.map(journalled);
    },
    follow(each, signal) {
      const emit = (event: TailEvent) => {
        if (event.type === 'routing-decision') each(() => routed(event));
      };
      void on.tail({ messages: true }, calling(signal, emit));
    },
  };
}

function journalled({
  envelopeId: id,
  at,
  sender: from,
  recipient: to,
  type,
  thread,
  code,
  envelope,
}: JournalRow): MessageLine {
  const { payload } = unpackEnvelope(JSON.parse(envelope));
  return { id, at, from, to, type, thread, code, reason: null, text: excerpt(payload) };
}

function routed(event: TailEvent): MessageLine {
  const { envelopeId = '', timestamp: at, sender = '', recipient = '', messageType = '', correlationId } = event;
  const { code = null, reason = null } = event;
  const about = { id: envelopeId, at, from: sender, to: recipient, type: messageType, thread: correlationId ?? null };
  return { ...about, code, reason, text: excerpt(event.payload) };
}

/** The journal has no payload of durable messages, and events have none of large ones. */
function excerpt(payload: unknown): string | null {
  if (payload === undefined || payload === null) return null;
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
  return text.length > TEXT_CHARS ? `${cutText(text, TEXT_CHARS - 1)}…` : text;
}
