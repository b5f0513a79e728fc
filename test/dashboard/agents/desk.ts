import { z } from 'zod';
import type { Agent } from '../../../src/index.js';

export const MARKUP = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"><b>bold</b>';

/** An agent with tasks that wait or ask, and a tool whose every word is markup. */
export function setup(agent: Agent): void {
  agent.onTask(async (task) => {
    if (task.text.startsWith('wait')) {
      task.progress(`waiting ${MARKUP}`);
      return new Promise((_, reject) => {
        task.signal.addEventListener('abort', () => reject(task.signal.reason));
      });
    }
    if (task.text.startsWith('ask')) {
      const { parts } = await task.ask('which branch?');
      return `took ${parts[0]!.text}`;
    }
    task.artifact(`did ${task.text}`, { name: `report ${MARKUP}` });
    return undefined;
  });
  agent.onRequest(({ payload }) => ({ got: payload, said: MARKUP }));
  agent.tool(
    'measure',
    {
      description: `Measures a thing ${MARKUP}`,
      inputSchema: z.object({
        what: z.string().describe(`its name ${MARKUP}`),
        times: z.int(),
        unit: z.enum(['mm', 'inch', MARKUP]),
        exact: z.boolean().optional(),
        box: z.object({ width: z.number() }).optional(),
      }),
    },
    (args) => ({ ...(args as object), said: MARKUP }),
  );
}
