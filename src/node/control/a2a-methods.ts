import type { ControlContext, Handlers } from './context.js';

/** A2A to agents of other nodes, over the mesh: their nodes keep the tasks. */
export function a2aMethods({ node }: Pick<ControlContext, 'node'>) {
  return {
    'a2a.card': async ({ to, as }) => {
      const client = await node.a2a(to, as === undefined ? {} : { as });
      client.close();
      return client.card;
    },
    async 'a2a.send'({ to, text, context, skill, task, as, timeoutMs }, { emit, drained, signal }) {
      const client = await node.a2a(to, { ...(as !== undefined && { as }), signal });
      const outgoing = {
        message: text,
        ...(context !== undefined && { contextId: context }),
        ...(skill !== undefined && { skill }),
        ...(task !== undefined && { taskId: task }),
      };
      try {
        const limits = { signal, ...(timeoutMs !== undefined && { timeoutMs }) };
        for await (const event of client.stream(outgoing, limits)) {
          emit(event);
          await drained();
        }
      } finally {
        client.close();
      }
    },
  } satisfies Partial<Handlers>;
}
