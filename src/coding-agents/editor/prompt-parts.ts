import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Part } from '../../a2a/protocol/types.js';
import type { ContentBlock } from '../../providers/acp/sdk.js';
import { EclipticError } from '../../runtime/errors.js';

type ReadFile = (path: string) => Promise<string>;

/** The parts of a task from an editor's prompt. Files that are linked are read through the editor where it lets us. */
export async function partsOfPrompt(prompt: readonly ContentBlock[], readFile?: ReadFile): Promise<readonly Part[]> {
  const parts: Part[] = [];
  for (const block of prompt) parts.push(await partOf(block, readFile));
  return parts;
}

async function partOf(block: ContentBlock, readFile: ReadFile | undefined): Promise<Part> {
  switch (block.type) {
    case 'text':
      return { text: block.text };
    case 'image':
    case 'audio':
      return { raw: block.data, mediaType: block.mimeType };
    case 'resource': {
      const { resource } = block;
      const about = { filename: nameOf(resource.uri), ...(resource.mimeType && { mediaType: resource.mimeType }) };
      return 'text' in resource ? fileOf(resource.text, about) : { raw: resource.blob, ...about };
    }
    case 'resource_link': {
      const path = pathOf(block.uri);
      const about = { filename: block.name, ...(block.mimeType && { mediaType: block.mimeType }) };
      if (path !== undefined && readFile) return fileOf(await readFile(path), about);
      return { url: block.uri, ...about };
    }
    default:
      throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', 'the prompt has content of an unknown type');
  }
}

function fileOf(text: string, about: Pick<Part, 'filename' | 'mediaType'>): Part {
  return { raw: Buffer.from(text).toString('base64'), mediaType: 'text/plain', ...about };
}

function pathOf(uri: string): string | undefined {
  if (!uri.startsWith('file:')) return undefined;
  try {
    return fileURLToPath(uri);
  } catch {
    return undefined;
  }
}

function nameOf(uri: string): string {
  return basename(pathOf(uri) ?? uri) || 'resource';
}
