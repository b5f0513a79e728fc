import type { Story } from '../../http/dashboard/facts.js';
import { EclipticError } from '../../runtime/errors.js';
import type { ControlContext, Handlers } from './context.js';
import { withPayload } from './message-methods.js';
import { acrossNodes } from './story/across-nodes.js';
import { findStory, storySources } from './story/find.js';
import { type StoryContext, storyOf, thisNode, type Used } from './story/told.js';

/** The story of any id: its events on one timeline, from this node and the owner's other devices. */
export function storyMethods(
  context: Pick<ControlContext, 'node' | 'gateway' | 'loop' | 'codingAgents' | 'devices'>,
  on: Used,
) {
  const { node, gateway, loop, codingAgents, devices } = context;
  const key = node.registry.nodeKey ?? '';
  const known: StoryContext = {
    ...{ node, gateway, loop, on, key },
    withPayload: (envelope) => withPayload(envelope, { node, codingAgents }),
  };
  const sources = storySources(known);
  return {
    async story({ id: given, local = false }): Promise<Story> {
      const id = withoutDevice(given.trim());
      if (!devices || local) return storyOf(await findStory(id, sources), known);
      const own = await findStory(id, sources).then(
        (told) => storyOf(told, known),
        (error: unknown) => asError(error),
      );
      const isUnknown = own instanceof EclipticError;
      if (isUnknown && own.code !== 'STORY_NOT_FOUND') throw own;
      return acrossNodes(isUnknown ? id : own.id, own, devices, thisNode(known));
    },
  } satisfies Partial<Handlers>;
}

/** Items that wait on another device have its key after their id; every device is asked anyway. */
function withoutDevice(id: string): string {
  return id.replace(/^([\w-]+:.+)@[0-9a-f]{6,64}$/, '$1');
}

function asError(error: unknown): EclipticError {
  if (error instanceof EclipticError) return error;
  throw error;
}
