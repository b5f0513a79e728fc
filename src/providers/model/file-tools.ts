import { z } from 'zod';
import { partOf } from '../../mcp/fence.js';
import { EclipticError } from '../../runtime/errors.js';
import type { ActionGate } from '../../system/approvals/action-gate.js';
import type { Workspace } from '../../system/files/workspace.js';
import { type ModelTool, modelTool, ruled, type ToolContext } from './tools.js';

interface FileToolsInit {
  readonly agent: string;
  readonly workspace: Workspace;
  readonly gate: ActionGate;
}

const MAX_LISTED = 500;
const MAX_DEPTH = 8;
/** Bytes of a file in one answer; the model asks for the next lines. */
const READ_BYTES = 24_000;
const MAX_HITS = 100;
const MAX_HIT_CHARS = 200;
const MAX_SEARCHED_FILES = 2_000;
const MAX_SEARCH_DEPTH = 32;

const path = z.string().min(1).max(1_024).describe('A path within the folder.');

/** Tools for the files of a model's folder. Each use passes the action gate. */
export function fileTools({ agent, workspace, gate }: FileToolsInit): ModelTool[] {
  const allow = async (
    action: 'fs.read' | 'fs.write',
    given: string,
    context: ToolContext,
    diff?: () => Promise<readonly string[]>,
  ) => {
    const subject = workspace.shown(await workspace.locate(given));
    const asked = { agent, provider: agent, action, subject };
    await ruled(context, (options) => gate.require(asked, { ...options, diff }));
  };
  /** A folder may be read although a rule denies some of its files. */
  const isReadable = (path: string) => {
    const subject = path.replace(/\/$/, '');
    return !gate.denies({ agent, provider: agent, action: 'fs.read', subject });
  };
  return [
    modelTool({
      name: 'list_files',
      description: 'Lists files and folders of your folder.',
      arguments: z.object({ path: path.optional(), depth: z.int().min(1).max(MAX_DEPTH).optional() }),
      summary: ({ path: at = '.' }) => at,
      async run({ path: at = '.', depth = 2 }, context) {
        await allow('fs.read', at, context);
        const { paths, isCut } = await workspace.list(at, { depth, most: MAX_LISTED });
        const note = isCut ? [`… (only the first ${MAX_LISTED})`] : [];
        return [...paths.filter(isReadable), ...note].join('\n') || 'The folder is empty.';
      },
    }),
    modelTool({
      name: 'read_file',
      description: 'Reads a text file, or some of its lines.',
      isVerbatim: true,
      arguments: z.object({
        path,
        line: z.int().min(1).optional().describe('The first line; default 1.'),
        limit: z.int().min(1).optional().describe('How many lines.'),
      }),
      summary: ({ path: at }) => at,
      async run({ path: at, line, limit }, context) {
        await allow('fs.read', at, context);
        const text = await workspace.read(at, line, limit);
        const part = partOf(text, 0, READ_BYTES);
        if (part.to === text.length) return text || 'The file is empty.';
        const next = (line ?? 1) + part.text.split('\n').length - 1;
        return `${part.text}\n… (cut; it goes on at line ${next})`;
      },
    }),
    modelTool({
      name: 'search_files',
      description: 'Finds the lines that contain a text, in all files of your folder or below a path.',
      isVerbatim: true,
      arguments: z.object({ text: z.string().min(1).max(500), path: path.optional() }),
      summary: ({ text }) => JSON.stringify(text),
      async run({ text, path: at = '.' }, context) {
        await allow('fs.read', at, context);
        const { paths, isCut } = await workspace.list(at, { depth: MAX_SEARCH_DEPTH, most: MAX_SEARCHED_FILES });
        const hits = await search(workspace, text, paths, isReadable, context.signal);
        const note = isCut ? [`(searched the first ${MAX_SEARCHED_FILES} files)`] : [];
        return [...hits, ...note].join('\n') || 'No line contains it.';
      },
    }),
    modelTool({
      name: 'write_file',
      description: 'Creates a file, or replaces its whole content.',
      arguments: z.object({ path, content: z.string() }),
      summary: ({ path: at }) => at,
      async run({ path: at, content }, context) {
        await allow('fs.write', at, context, () => workspace.difference(at, content));
        await workspace.write(at, content);
        return `Wrote ${content.length} characters to ${at}.`;
      },
    }),
    modelTool({
      name: 'edit_file',
      description: 'Replaces a text that occurs exactly once in a file.',
      arguments: z.object({ path, old_text: z.string().min(1), new_text: z.string() }),
      summary: ({ path: at }) => at,
      async run({ path: at, old_text: old, new_text: text }, context) {
        // Whether a text occurs in a file is part of its content.
        await allow('fs.read', at, context);
        const edited = async () => replaced(await workspace.read(at), old, text, at);
        const content = await edited();
        await allow('fs.write', at, context, () => workspace.difference(at, content));
        // The owner may have taken minutes to answer, and the file may have changed since.
        await workspace.write(at, await edited());
        return `Changed ${at}.`;
      },
    }),
  ];
}

function replaced(before: string, old: string, text: string, path: string): string {
  const place = before.indexOf(old);
  if (place < 0 || before.includes(old, place + 1)) {
    const often = place < 0 ? 'does not occur' : 'occurs more than once';
    throw new EclipticError('INVALID_ARGUMENTS', `old_text ${often} in ${path}; it must occur exactly once`);
  }
  return `${before.slice(0, place)}${text}${before.slice(place + old.length)}`;
}

async function search(
  workspace: Workspace,
  text: string,
  paths: readonly string[],
  isReadable: (path: string) => boolean,
  signal: AbortSignal,
): Promise<string[]> {
  const hits: string[] = [];
  for (const path of paths) {
    if (path.endsWith('/')) continue;
    if (signal.aborted) throw signal.reason;
    // A file may be gone, outside, or too large: the search goes on with the others.
    const content = await readAllowed(workspace, path, isReadable).catch(() => '');
    if (content.includes('\0') || !content.includes(text)) continue;
    for (const [index, line] of content.split('\n').entries()) {
      if (line.includes(text)) hits.push(`${path}:${index + 1}: ${line.trim().slice(0, MAX_HIT_CHARS)}`);
      if (hits.length === MAX_HITS) return [...hits, `… (only the first ${MAX_HITS})`];
    }
  }
  return hits;
}

/** The content of a file that may be read. A link is judged by its target. */
async function readAllowed(workspace: Workspace, path: string, isReadable: (path: string) => boolean): Promise<string> {
  const target = workspace.shown(await workspace.locate(path));
  return isReadable(path) && isReadable(target) ? workspace.read(path) : '';
}
