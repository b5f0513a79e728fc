import { createHash } from 'node:crypto';
import { existsSync, rmdirSync, rmSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { z } from 'zod';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { JsonFile } from '../../system/files/private-file.js';
import { readUtf8, replaceText } from '../../system/files/text-file.js';
import { CLIENTS, type Client, type Machine } from './clients.js';
import type { ServerCommand } from './entries.js';

export interface Change {
  readonly client: string;
  readonly title: string;
  readonly file: string;
  /** Undefined where the file does not exist, or is deleted. */
  readonly before: string | undefined;
  readonly after: string | undefined;
  readonly problem?: string;
}

/** The changes that were made, for undoing: the original text, and the digest of the new one. */
const DoneSchema = z.array(
  z.strictObject({
    client: z.string(),
    file: z.string(),
    before: z.string().nullable(),
    after: z.string(),
    /** The topmost folder that was created for the file. */
    made: z.string().optional(),
  }),
);

const JOURNAL = 'setup.json';
/** Configurations of coding agents may hold tokens. */
const PRIVATE = 0o600;

/** Adds this node's MCP server to the configuration of the machine's coding agents, and removes it again. */
export class Setup {
  readonly #machine: Machine;
  readonly #journal: JsonFile<z.infer<typeof DoneSchema>>;

  constructor(machine: Machine, dataFolder: string) {
    this.#machine = machine;
    this.#journal = new JsonFile(join(dataFolder, JOURNAL), DoneSchema);
  }

  clients(named: readonly string[]): Client[] {
    const unknown = named.find((id) => !CLIENTS.some((client) => client.id === id));
    if (unknown !== undefined) {
      const known = CLIENTS.map(({ id }) => id).join(', ');
      throw new EclipticError('USAGE', `no client is called "${unknown}"; these are known: ${known}`);
    }
    return CLIENTS.filter((client) => (named.length > 0 ? named.includes(client.id) : client.isHere(this.#machine)));
  }

  /** The changes to make, with hooks and guards if commands for them are given; up-to-date files are left out. */
  plan(
    clients: readonly Client[],
    server: (client: Client) => ServerCommand,
    hooks?: ServerCommand,
    guard?: ServerCommand,
  ): Change[] {
    return clients.flatMap((client): Change[] => {
      const { id, title } = client;
      const parts = [
        { file: client.file(this.#machine), entry: client.entry, command: server(client) },
        ...this.#part(client.hooks, hooks),
        ...this.#part(client.guard, guard),
      ];
      return [...new Set(parts.map(({ file }) => file))].flatMap((file): Change[] => {
        const about = { client: id, title, file };
        try {
          const before = readUtf8(file);
          const here = parts.filter((part) => part.file === file);
          const after = here.reduce<string | undefined>((text, { entry, command }) => entry.set(text, command), before);
          return after === before ? [] : [{ ...about, before, after }];
        } catch (error) {
          return [{ ...about, before: undefined, after: undefined, problem: describeError(error) }];
        }
      });
    });
  }

  /** What the hooks and guards do in each client, and what they do not. */
  notes(clients: readonly Client[], asked: { readonly hooks: boolean; readonly guard: boolean }): string[] {
    return clients.flatMap(({ title, hooks, guard, hookTrust, wakes, guards }) => [
      ...(asked.hooks && hooks && wakes ? [`${title}: ${wakes}`] : []),
      ...(asked.hooks && !hooks
        ? [`${title} has no hooks by which mail could reach it: it sees mail when it asks`]
        : []),
      ...(asked.guard && guard && guards
        ? [
            `${title}: the guard covers ${guards}, and git operations that take work from another agent; it does not cover shell commands otherwise, or tools of other MCP servers`,
          ]
        : []),
      ...(asked.guard && !guard ? [`${title} has no hook that could guard files: its edits are not stopped`] : []),
      ...(((asked.hooks && hooks) || (asked.guard && guard)) && hookTrust ? [hookTrust] : []),
    ]);
  }

  #part(place: Client['hooks'], command: ServerCommand | undefined) {
    return place && command ? [{ file: place.file(this.#machine), entry: place.entry, command }] : [];
  }

  /** Writes one change, if the file has not changed since it was planned. */
  apply({ client, file, before, after }: Change): void {
    if (readUtf8(file) !== before) {
      throw new EclipticError('INVALID_CONFIG', `${file} has changed meanwhile; nothing was written`, { file });
    }
    const done = this.#journal.load() ?? [];
    // Undoing restores the text from before the first change.
    const first = done.find((known) => known.file === file && known.after === digest(before));
    const original = first ? first.before : this.#foreign(client, file, before);
    const others = done.filter((known) => known.file !== file);
    // The folder may have been created for another file: it goes with the last of them.
    const shared = done.find((known) => known.made !== undefined && file.startsWith(`${known.made}${sep}`));
    const made = done.find((known) => known.file === file)?.made ?? missingFolder(file) ?? shared?.made;
    const entry = { client, file, before: original, after: digest(after) };
    this.#journal.save([...others, { ...entry, ...(made !== undefined && { made }) }]);
    replaceText(file, after!, PRIVATE);
  }

  /** A file that the client rewrote since contains our entry, which must not be restored. */
  #foreign(id: string, file: string, text: string | undefined): string | null {
    const client = CLIENTS.find((known) => known.id === id);
    return (client && text?.trim() ? this.#without(client, file, text) : text) ?? null;
  }

  /** The changes that undo setup: a file that was not edited since is restored to the byte. */
  planUndo(named: readonly string[]): Change[] {
    return (this.#journal.load() ?? [])
      .filter(({ client }) => named.length === 0 || named.includes(client))
      .flatMap(({ client: id, file, before, after }) => {
        const client = CLIENTS.find((known) => known.id === id);
        const present = readUtf8(file);
        if (!client || present === undefined) return [];
        const untouched = digest(present) === after;
        const restored = untouched ? (before ?? undefined) : this.#without(client, file, present);
        return [{ client: id, title: client.title, file, before: present, after: restored }];
      });
  }

  #without(client: Client, file: string, text: string): string | undefined {
    const places = [client, client.hooks, client.guard].filter((place) => place?.file(this.#machine) === file);
    return places.reduce<string | undefined>((rest, place) => rest && place!.entry.remove(rest), text);
  }

  undo({ client, file, before, after }: Change): void {
    if (readUtf8(file) !== before) {
      throw new EclipticError('INVALID_CONFIG', `${file} has changed meanwhile; nothing was written`, { file });
    }
    const done = this.#journal.load() ?? [];
    if (after === undefined) {
      rmSync(file);
      removeEmpty(dirname(file), done.find((known) => known.file === file)?.made);
    } else replaceText(file, after, PRIVATE);
    const others = done.filter((known) => known.client !== client || known.file !== file);
    this.#journal.save(others);
  }
}

/** The topmost folder that must be created for the file. */
function missingFolder(file: string): string | undefined {
  let missing: string | undefined;
  for (let folder = dirname(file); !existsSync(folder); folder = dirname(folder)) missing = folder;
  return missing;
}

/** Removes the created folders that are empty. */
function removeEmpty(folder: string, made: string | undefined): void {
  if (made === undefined || !(folder === made || folder.startsWith(`${made}${sep}`))) return;
  try {
    rmdirSync(folder);
  } catch {
    return;
  }
  removeEmpty(dirname(folder), made);
}

function digest(text: string | undefined): string {
  return text === undefined ? '' : createHash('sha256').update(text).digest('hex');
}
