import { ALONE, eventOf, type StoryContext, type StorySource } from './told.js';

/** Calls of tools, by the records that this process has. */
export function toolCallSource({ on, key }: StoryContext): StorySource {
  return {
    kind: 'tool call',
    ids: async (given) => (await on.invocations({}, ALONE)).map(({ id }) => id).filter((id) => id.startsWith(given)),
    async tell(id) {
      const record = (await on.invocations({}, ALONE)).find((one) => one.id === id);
      if (!record) return undefined;
      const { tool, agent, caller, startedAt, durationMs, error, thread, arguments: given, result } = record;
      const proof = { kind: 'record', text: `record of the call ${id}` } as const;
      const endedAt = startedAt + durationMs;
      const ended = error
        ? { word: 'failed', code: error.code, text: error.message }
        : { word: 'completed', text: null };
      return {
        ...{ id, kind: 'tool call', title: `${caller} calls ${tool}`, state: ended.word, over: true, endedAt },
        events: [
          eventOf(key, { at: startedAt, from: caller, to: agent, word: 'called', text: tool, proof }),
          eventOf(key, { at: endedAt, from: agent, to: caller, ...ended, proof }),
        ],
        payload: { arguments: given, ...(error ? { error } : { result }) },
        related: thread === undefined ? [] : [{ id: thread, kind: 'thread' }],
      };
    },
  };
}
