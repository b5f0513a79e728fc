import type { DirectoryListener } from '../src/network/directory/directory.js';
import { Ring } from '../src/network/directory/neighbours.js';
import { DirectoryKey } from '../src/network/membership/directory-key.js';
import { Identity } from '../src/network/membership/identity.js';
import { type Confirmation, headOf, isConfirmed } from '../src/network/peers/directory-entry.js';
import { GossipDirectory } from '../src/network/peers/gossip-directory.js';
import type { Item } from '../src/network/peers/wire.js';
import type { Timer } from '../src/runtime/runtime.js';
import { SimulatedRuntime } from '../src/runtime/simulated-runtime.js';
import { ProcessRuntime } from './durable/simulated-mail.js';

/** How long after a crash its neighbours notice it, and how long a frame is under way. */
const NOTICED_MS = 3_000;
const LATENCY_MS = 5;

/** A clock whose tasks run without a turn of the event loop between them: a thousand nodes have millions. */
class ModelRuntime extends SimulatedRuntime {
  readonly #due = new Map<number, (() => void)[]>();
  #passed = 0;

  override now(): number {
    return super.now() + this.#passed;
  }

  override stopwatch(): number {
    return this.#passed;
  }

  override setTimer(task: () => void, ms: number): Timer {
    let run: (() => void) | undefined = task;
    this.after(() => run?.(), ms);
    return {
      cancel: () => {
        run = undefined;
      },
    };
  }

  after(task: () => void, ms: number): void {
    const at = Math.floor(this.#passed + Math.max(1, ms));
    const tasks = this.#due.get(at) ?? [];
    tasks.push(task);
    this.#due.set(at, tasks);
  }

  pass(ms: number): void {
    for (const end = this.#passed + ms; this.#passed < end; ) {
      this.#passed++;
      const tasks = this.#due.get(this.#passed) ?? [];
      this.#due.delete(this.#passed);
      for (const task of tasks) task();
    }
  }
}

class ModelNode implements DirectoryListener {
  readonly identity: Identity;
  readonly listed = new Set<string>();
  readonly links = new Set<ModelNode>();
  gossip: GossipDirectory | undefined;
  process: ProcessRuntime | undefined;
  version = 0;
  frames = 0;
  chars = 0;

  constructor(identity: Identity) {
    this.identity = identity;
  }

  get key(): string {
    return this.identity.key;
  }

  onEntry(text: string): boolean {
    const { node } = headOf(text);
    if (text.includes('gone')) this.listed.delete(node);
    else this.listed.add(node);
    return true;
  }

  onOutdone(): void {}

  onHeard(): void {}

  onGone(node: string): void {
    this.listed.delete(node);
  }
}

/**
 * The gossip of many nodes, whose links are those of the ring of nodes that run. Entries are unsigned and have the size of
 * one with a card. Signatures of confirmations are checked, each once for all nodes.
 */
export class GossipModel {
  readonly runtime: ModelRuntime;
  readonly nodes: ModelNode[];
  readonly #byKey: ReadonlyMap<string, ModelNode>;
  /** Confirmations by their signatures, and entries by their texts: all nodes are in one process, so each is there once. */
  readonly #confirmations = new Map<string, { confirmation: Confirmation; genuine?: boolean }>();
  readonly #texts = new Map<string, string>();

  constructor(count: number, seed: number) {
    this.runtime = new ModelRuntime({ seed });
    this.nodes = Array.from({ length: count }, () => new ModelNode(Identity.create(this.runtime)));
    this.#byKey = new Map(this.nodes.map((node) => [node.key, node]));
  }

  get running(): ModelNode[] {
    return this.nodes.filter(({ gossip }) => gossip);
  }

  start(node: ModelNode): void {
    const runtime = new ProcessRuntime(this.runtime, (message, error) => {
      throw new Error(message, { cause: error });
    });
    const gossip = new GossipDirectory({
      runtime,
      identity: node.identity,
      say: (to, text) => this.#carry(node, gossip, to, text),
      isFullMember: () => true,
      isNeighbour: () => true,
      key: new DirectoryKey(runtime),
      onKey() {},
      isConfirmed: (confirmation) => this.#isConfirmed(confirmation),
    });
    node.gossip = gossip;
    node.process = runtime;
    node.listed.clear();
    void gossip.start(node);
    this.#publish(node, 'here');
  }

  stop(node: ModelNode): void {
    this.#publish(node, 'gone');
    void node.gossip!.stop();
    this.#end(node, 0);
  }

  crash(node: ModelNode): void {
    this.#end(node, NOTICED_MS);
  }

  /** Opens and closes links, so that those of the ring are there. */
  link(): void {
    const running = this.running;
    const keys = running.map(({ key }) => key);
    const rings = new Map(running.map((node) => [node, new Ring(node.key, keys)]));
    for (const [node, ring] of rings) {
      for (const other of running) {
        const linked = node.links.has(other);
        if (other.key <= node.key || ring.isNeighbour(other.key) === linked) continue;
        for (const [one, far] of [
          [node, other],
          [other, node],
        ] as const) {
          if (linked) one.links.delete(far);
          else one.links.add(far);
        }
        for (const [one, far] of [
          [node, other],
          [other, node],
        ] as const) {
          if (linked) one.gossip!.ended(far.key);
          else one.gossip!.began(far.key);
        }
      }
    }
  }

  /** Does every node list exactly the others that run? */
  isConverged(): boolean {
    const running = this.running;
    return running.every(
      (node) =>
        node.listed.size === running.length - 1 &&
        running.every((other) => other === node || node.listed.has(other.key)),
    );
  }

  /** Lets time pass until every node lists exactly the others; returns how long it took. */
  converge(limitMs: number): number {
    for (let passed = 0; passed <= limitMs; passed += 500) {
      if (this.isConverged()) return passed;
      this.runtime.pass(500);
    }
    const keys = this.running.map(({ key }) => key);
    const wrong = this.running.map(({ listed }) => [
      keys.filter((key) => !listed.has(key)).length - 1,
      [...listed].filter((key) => !keys.includes(key)).length,
    ]);
    throw new Error(
      `not converged within ${limitMs} ms (seed ${this.runtime.seed}): missing, surplus ${JSON.stringify(wrong)}`,
    );
  }

  /** Frames and characters that a node sends per second, on average, over a time in which nothing happens. */
  cost(ms: number): { frames: number; chars: number } {
    const running = this.running;
    for (const node of running) Object.assign(node, { frames: 0, chars: 0 });
    this.runtime.pass(ms);
    const sum = (of: (node: ModelNode) => number) => running.reduce((total, node) => total + of(node), 0);
    const per = (total: number) => Math.round(((total / running.length) * 1_000) / ms);
    return { frames: per(sum(({ frames }) => frames)), chars: per(sum(({ chars }) => chars)) };
  }

  #publish(node: ModelNode, state: string): void {
    node.version = Math.max(node.version + 1, Math.floor(this.runtime.now()));
    const { version } = node;
    const text = JSON.stringify([node.key, version, `${state} ${'x'.repeat(1_200)}`, 'unsigned']);
    node.gossip!.publish({ node: node.key, version, text });
  }

  #carry(from: ModelNode, gossip: GossipDirectory, to: string, text: string): void {
    const target = this.#byKey.get(to)!;
    from.frames++;
    from.chars += text.length;
    this.runtime.after(() => {
      const known = from.gossip === gossip || text.includes('"gone"');
      if (known && target.gossip) target.gossip.take(from.key, this.#share(JSON.parse(text) as Item));
    }, LATENCY_MS);
  }

  #share([kind, verb, body]: Item): Item {
    if (verb === 'alive') return [kind, verb, (body as Confirmation[]).map((said) => this.#known(said).confirmation)];
    if (verb !== 'entries') return [kind, verb, body];
    const entries = (body as [string, Confirmation][]).map(([text, said]) => [
      this.#text(text),
      this.#known(said).confirmation,
    ]);
    return [kind, verb, entries];
  }

  #text(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (this.#texts.size > 10_000) this.#texts.clear();
    this.#texts.set(text, text);
    return text;
  }

  #known(said: Confirmation): { confirmation: Confirmation; genuine?: boolean } {
    const [node, version, at, signature] = said;
    const known = this.#confirmations.get(signature);
    const { confirmation } = known ?? {};
    if (confirmation?.[0] === node && confirmation[1] === version && confirmation[2] === at) return known!;
    if (this.#confirmations.size > 20_000) this.#confirmations.clear();
    const added = { confirmation: said };
    this.#confirmations.set(signature, added);
    return added;
  }

  #end(node: ModelNode, noticedMs: number): void {
    node.gossip = undefined;
    node.process?.end();
    const others = [...node.links];
    node.links.clear();
    for (const other of others) {
      other.links.delete(node);
      const gossip = other.gossip;
      this.runtime.after(
        () => {
          if (!other.links.has(node)) gossip?.ended(node.key);
        },
        noticedMs + 2 * LATENCY_MS,
      );
    }
  }

  #isConfirmed(confirmation: Confirmation): boolean {
    const known = this.#known(confirmation);
    known.genuine ??= isConfirmed(confirmation);
    return known.genuine;
  }
}
