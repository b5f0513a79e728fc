import { z } from 'zod';
import type { Agent } from '../../agent/agent.js';
import type { FileUse } from '../../coding-agents/editor/editor-mesh.js';
import { fullAddress } from '../../mesh/address.js';
import { aborted, Deferred } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { type ControlContext, type Handlers, inFull } from './context.js';

/** The agent that offers an editor's files. */
const NAME = 'editor';
const MAX_EDITORS = 32;
/** Uses of one editor's files that may wait for it. */
const MAX_WAITING = 64;

interface Editor {
  readonly waiting: Map<number, Deferred<string>>;
}

const path = z.string().min(1).max(4_096).describe('The absolute path.');
const READ = z.object({
  path,
  line: z.int().positive().optional().describe('The first line, from 1.'),
  limit: z.int().positive().optional().describe('The number of lines.'),
});
const WRITE = z.object({ path, content: z.string().max(900_000).describe('The whole new content.') });

/** The operations of `ecliptic acp`: an editor's files as tools of the one agent that the editor works with. */
export function editorMethods({ node }: Pick<ControlContext, 'node'>) {
  const editors = new Map<string, Editor>();
  return {
    async 'editor.open'({ session, to }, { emit, signal }) {
      if (editors.has(session)) throw new EclipticError('USAGE', `a session "${session}" exists already`);
      const { registry } = node;
      const entry = registry.candidate(inFull(to, node));
      const only = fullAddress(entry.address, registry.nodeKey);
      const editor: Editor = { waiting: new Map() };
      let calls = 0;
      const ask = async (asked: FileUse, caller: string, gone: AbortSignal): Promise<string> => {
        if (fullAddress(caller, registry.nodeKey) !== only) {
          throw new EclipticError('SENDER_REFUSED', `the files of this editor are for ${entry.address} only`);
        }
        if (editor.waiting.size >= MAX_WAITING) {
          throw new EclipticError('QUEUE_FULL', `${MAX_WAITING} uses of the editor’s files wait for it`);
        }
        const call = ++calls;
        const answer = new Deferred<string>();
        editor.waiting.set(call, answer);
        emit({ call, ...asked });
        const withdraw = () => answer.reject(gone.reason);
        gone.addEventListener('abort', withdraw);
        try {
          return await answer.promise;
        } finally {
          gone.removeEventListener('abort', withdraw);
          editor.waiting.delete(call);
        }
      };
      const agent = join(node, entry.sandboxId);
      editors.set(session, editor);
      try {
        agent
          .tool(
            'read_file',
            {
              description: 'Reads a file in the editor of the person whose task you work on, unsaved changes included.',
              inputSchema: READ,
              annotations: { readOnlyHint: true, openWorldHint: false },
            },
            (given, { caller, signal }) => ask({ use: 'read', ...given } as FileUse, caller, signal),
          )
          .tool(
            'write_file',
            {
              description:
                'Writes a file in the editor of the person whose task you work on, who sees the change first.',
              inputSchema: WRITE,
              annotations: { destructiveHint: true, openWorldHint: false },
            },
            (given, { caller, signal }) => ask({ use: 'write', ...given }, caller, signal),
          );
        await aborted(signal);
      } finally {
        editors.delete(session);
        agent.leave();
        const closed = new EclipticError('NODE_STOPPED', 'the editor was closed');
        for (const answer of editor.waiting.values()) answer.reject(closed);
      }
    },
    'editor.answer'({ session, call, result, error }) {
      const answer = editors.get(session)?.waiting.get(call);
      if (error !== undefined) answer?.reject(new EclipticError('HANDLER_FAILED', error));
      else answer?.resolve(result ?? '');
    },
  } satisfies Partial<Handlers>;
}

/** The first editor is `editor`, the next ones are numbered. */
function join(node: ControlContext['node'], sandbox: string | undefined): Agent {
  const about = { description: 'The files of an open editor.', tier: 3 as const, ...(sandbox && { sandbox }) };
  const taken = new Set(node.agents.map(({ id }) => id));
  for (let number = 1; number <= MAX_EDITORS; number++) {
    const id = number === 1 ? NAME : `${NAME}-${number}`;
    if (!taken.has(id)) return node.agent({ id, ...about });
  }
  throw new EclipticError('QUEUE_FULL', `${MAX_EDITORS} editors are connected`);
}
