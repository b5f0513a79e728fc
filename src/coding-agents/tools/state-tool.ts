import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { SharedDocument } from '../../documents/document.js';
import { removeAt, valueAt, writeAt } from '../../documents/paths.js';
import { harmless } from '../../mcp/fence.js';
import { cutText } from '../../runtime/text.js';
import type { Member } from '../mailbox/member.js';
import { type Answer, invalid, type MeshTool, read } from './tool.js';

const Arguments = z.strictObject({
  action: z.enum(['get', 'set', 'add', 'remove', 'list']),
  key: z.string().min(1).max(200).optional(),
  value: z.unknown().optional(),
  since: z.string().max(64).optional(),
});

const CATCH_UP_MS = 2_000;
const MAX_CHARS = 20_000;

export const stateTool: MeshTool = async (member, args) => {
  const { action, key, value, since } = read(Arguments, args);
  if (action === 'list' && key === undefined) return list(member);
  if (key === undefined) throw invalid('give a key: document.name; nothing was done');
  const dot = key.indexOf('.');
  const path = dot < 0 ? undefined : key.slice(dot + 1);
  const isRead = action === 'get' || action === 'list';
  // Checked first: opening a document creates it.
  if (!isRead && !path)
    throw invalid(`name something in it: ${dot < 0 ? key : key.slice(0, dot)}.name; nothing was done`);
  const document = member.agent.state(dot < 0 ? key : key.slice(0, dot));
  await document.ready;
  await document.caughtUp(CATCH_UP_MS);
  if (isRead || !path) return show(document, path, since);
  if (action === 'set') writeAt(document, path, value ?? null);
  else if (action === 'add') document.list(path).push(value ?? null);
  else remove(document, path, value);
  await document.synced();
  return { text: `${key}: ${action} done, version ${versionOf(document)}.` };
};

function list({ names, agent }: Member): Answer {
  const open = agent.documents.map((document) => {
    const others = [...document.members.keys()].map((address) => names.display(address));
    return `${document.name}${others.length > 0 ? ` (also ${others.join(', ')})` : ''}`;
  });
  return { text: open.length === 0 ? 'You have opened no documents yet; get with a key opens one.' : open.join('\n') };
}

function show(document: SharedDocument, path: string | undefined, since: string | undefined): Answer {
  const version = versionOf(document);
  if (since === version) return { text: `Unchanged since ${since}.` };
  const value = path === undefined ? document.toJSON() : valueAt(document.toJSON(), path);
  const said = harmless(JSON.stringify(value));
  const text =
    said.length <= MAX_CHARS ? said : `${cutText(said, MAX_CHARS)}… (${said.length} characters; ask for a part)`;
  return { text: `${text}\nversion ${version}` };
}

/** With a value: removes all equal elements of a list. Without: removes the key. */
function remove(document: SharedDocument, path: string, value: unknown): void {
  if (value === undefined) {
    removeAt(document, path);
    return;
  }
  const elements = document.list(path);
  const wanted = JSON.stringify(value);
  document.transact(() => {
    for (let index = elements.length - 1; index >= 0; index--) {
      if (JSON.stringify(elements.get(index)) === wanted) elements.delete(index);
    }
  });
}

function versionOf({ vector }: SharedDocument): string {
  const parts = Object.entries(vector).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 8);
}
