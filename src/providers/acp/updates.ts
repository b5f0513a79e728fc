import type { SessionUpdate } from './sdk.js';

/** What an agent tells while it works: part of its answer, a thought, its plan, what it does with a tool. */
export interface AcpUpdate {
  readonly kind: 'text' | 'progress' | 'plan' | 'tool-call';
  /** For people. */
  readonly text: string;
  /** As the protocol has it. */
  readonly data: SessionUpdate;
}

const MARKS = { pending: ' ', in_progress: '…', completed: '✓' } as const;

/** Tool calls of one turn whose titles are kept. */
const MAX_TITLES = 1_000;

/** What an update means to whoever waits for the work; nothing, where it is about the session alone. */
export function readUpdate(update: SessionUpdate, titles: Map<string, string>): AcpUpdate | undefined {
  switch (update.sessionUpdate) {
    case 'agent_message_chunk':
    case 'agent_thought_chunk': {
      const text = update.content.type === 'text' ? update.content.text : '';
      return { kind: update.sessionUpdate === 'agent_message_chunk' ? 'text' : 'progress', text, data: update };
    }
    case 'plan': {
      const lines = update.entries.map(({ content, status }) => `[${MARKS[status] ?? ' '}] ${content}`);
      return { kind: 'plan', text: lines.join('\n'), data: update };
    }
    case 'tool_call':
    case 'tool_call_update': {
      const { toolCallId, kind, status } = update;
      const title = update.title || titles.get(toolCallId) || kind || 'tool call';
      if (titles.has(toolCallId) || titles.size < MAX_TITLES) titles.set(toolCallId, title);
      const text = status ? `${title}: ${status}` : title;
      return { kind: 'tool-call', text, data: update };
    }
    default:
      return undefined;
  }
}
