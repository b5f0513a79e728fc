import { dirname, relative, sep } from 'node:path';
import type { Runtime } from '../../runtime/runtime.js';
import { coverOf, literalGlob } from '../leases/glob.js';
import { type Denial, existingFolder, type GuardQuestion, realPath } from '../leases/guard.js';
import type { Leases } from '../leases/leases.js';
import type { GitOperation } from './git-operations.js';
import { couldMean } from './pathspec.js';
import type { Radar } from './radar.js';
import type { DirtyPlace } from './radar-machine.js';

export interface RadarQuestion extends GuardQuestion {
  readonly operations: readonly GitOperation[];
}

interface EditGuardComponents {
  runtime: Runtime;
  leases: Leases;
  radar: Radar;
}

interface Written {
  readonly by: Set<string>;
  readonly at: number;
  /** The file was among the changed ones since. */
  seen: boolean;
}

/** A file of a repository. */
interface Located {
  readonly repository: string;
  /** Of the worktree. */
  readonly root: string;
  readonly within: string;
}

/** For this time, an edit that was allowed keeps other agents of the folder from the file: it may be made yet. */
const PENDING_MS = 60_000;
/** An edit that was allowed and is not to be seen in the folder after this time was not made. */
const UNSEEN_MS = 600_000;
const MAX_WRITTEN = 1_000;

/**
 * Stops an agent before it changes a file that another agent has changed and not committed, and before it takes HEAD, the
 * index or changed files away from another agent in its folder. Of agents that share a folder it knows which of them
 * changed a file by their own hooks.
 */
export class EditGuard {
  readonly #components: EditGuardComponents;
  /** By folder and path: the agents whose edits were allowed. */
  readonly #written = new Map<string, Map<string, Written>>();

  constructor(components: EditGuardComponents) {
    this.#components = components;
    components.radar.onChange(() => this.#sweep());
  }

  async ask({ folder, paths, operations, proves, ...from }: RadarQuestion): Promise<Denial[]> {
    const { leases } = this.#components;
    const { names, certain } = leases.participants.spokenForBy({ ...from, checkout: realPath(folder) });
    const own = names.map((name) => leases.address(name));
    const denied = (await Promise.all(operations.map((operation) => this.#operation(folder, operation, own)))).flat();
    const files = await Promise.all(
      paths.map(async (path) => {
        const file = realPath(folder, path);
        return { path, found: await this.#locate(dirname(file), file) };
      }),
    );
    // From here on without a pause: of two agents that ask at the same time, the second one is told of the first.
    const denials = [...files.flatMap(({ path, found }) => (found ? this.#edit(found, path, own) : [])), ...denied];
    if (denials.length === 0 && proves && certain) {
      for (const { found } of files) if (found) this.#note(found, own[0]!);
    }
    return denials;
  }

  #edit({ repository, root, within }: Located, path: string, own: readonly string[]): Denial[] {
    const { leases, radar } = this.#components;
    const holds = leases.held.some(
      (lease) => lease.repository === repository && own.includes(lease.holder) && coverOf(lease.glob)(within),
    );
    // Whoever has reserved the file may change it: that is how two agents agree.
    if (holds) return [];
    const place = radar.at(root);
    const isChanged = place?.files.includes(within) === true;
    const written = this.#written.get(root)?.get(within);
    if (isChanged || (written && this.#isPending(written))) {
      const by = [...(written?.by ?? [])];
      // Its own change is there already, or nobody knows whose it is.
      if (by.length === 0 || by.some((agent) => own.includes(agent))) return [];
      return [{ type: 'changed', path, holder: by[0]!, branch: place?.branch ?? null }];
    }
    const others = radar.changedBy(repository, [literalGlob(within)], { folder: root, agents: own });
    const other = others.find((one) => one.place.agents.length > 0)?.place;
    if (!other) return [];
    const there = other.agents.filter((agent) => !own.includes(agent));
    return [{ type: 'changed', path, holder: this.#writerOf(other, within, there), branch: other.branch ?? null }];
  }

  async #operation(
    folder: string,
    { command, folder: at, paths }: GitOperation,
    own: readonly string[],
  ): Promise<Denial[]> {
    const { radar } = this.#components;
    const from = realPath(folder, at);
    const found = await this.#locate(from, from);
    const place = found && radar.at(found.root);
    if (!found || !place) return [];
    const { root, repository } = found;
    const others = place.agents.filter((agent) => !own.includes(agent));
    if (others.length === 0) return [];
    const tell = (taken: readonly string[]) => {
      const [by] = own;
      if (by !== undefined) radar.stopped({ repository, folder: root, command, by, others, paths: taken });
    };
    if (!paths) {
      tell([]);
      return [{ type: 'git', command, holder: others[0]!, folder: root, paths: [] }];
    }
    const written = this.#written.get(root);
    const meant = paths.map((path) => couldMean(path, { root, from }));
    const theirs = [...new Set([...place.files, ...(written?.keys() ?? [])])].filter((file) => {
      const by = written?.get(file)?.by;
      const isTheirs = !by || [...by].some((agent) => !own.includes(agent));
      return isTheirs && meant.some((isMeant) => isMeant(file));
    });
    if (theirs.length === 0) return [];
    tell(theirs);
    return [{ type: 'git', command, holder: this.#writerOf(place, theirs[0]!, others), folder: root, paths: theirs }];
  }

  #writerOf({ device, folder }: DirtyPlace, file: string, others: readonly string[]): string {
    const isHere = this.#components.radar.at(folder)?.device === device;
    const by = (isHere && this.#written.get(folder)?.get(file)?.by) || [];
    return [...by].find((agent) => others.includes(agent)) ?? others[0]!;
  }

  #note({ root, within }: Located, agent: string): void {
    const written = this.#written.get(root) ?? new Map<string, Written>();
    this.#written.set(root, written);
    const known = written.get(within);
    const isChanged = this.#components.radar.at(root)?.files.includes(within) === true;
    // An edit that was allowed long ago and never made says nothing about the next one.
    const { by, seen } =
      known && (isChanged || this.#isPending(known)) ? known : { by: new Set<string>(), seen: false };
    written.delete(within);
    written.set(within, { by: by.add(agent), at: this.#components.runtime.now(), seen });
    if (written.size > MAX_WRITTEN) written.delete(written.keys().next().value!);
  }

  /** Allowed, and perhaps not made yet, or not seen yet. */
  #isPending({ at, seen }: Written): boolean {
    return !seen && this.#components.runtime.now() - at < PENDING_MS;
  }

  /** An edit is over when its file is not changed any more. */
  #sweep(): void {
    const now = this.#components.runtime.now();
    for (const [folder, written] of this.#written) {
      const files = new Set(this.#components.radar.at(folder)?.files);
      for (const [path, one] of written) {
        if (files.has(path)) one.seen = true;
        else if (one.seen || now - one.at > UNSEEN_MS) written.delete(path);
      }
      if (written.size === 0) this.#written.delete(folder);
    }
  }

  /** The file in its repository; undefined if it is outside. */
  async #locate(folder: string, file: string): Promise<Located | undefined> {
    const { id, root } = await this.#components.leases.repositoryAt(existingFolder(folder));
    const within = relative(root, file).split(sep).join('/');
    return within === '..' || within.startsWith('../') ? undefined : { repository: id, root, within };
  }
}
