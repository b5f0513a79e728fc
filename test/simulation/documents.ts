import type { Agent } from '../../src/agent/agent.js';
import type { SharedDocument } from '../../src/documents/document.js';
import { canonicalJson } from '../../src/network/membership/statement.js';
import { EclipticError } from '../../src/runtime/errors.js';
import type { Capability } from './capability.js';
import type { Dice } from './dice.js';
import { type Fabric, type Life, nameOf, type Role, type UpLife } from './fabric.js';

const NAMES = ['plan', 'board'];
/** Items that a list may have: documents must not grow with the run. */
const MAX_ITEMS = 60;

interface Replica {
  readonly role: Role;
  readonly life: UpLife;
  readonly document: SharedDocument;
}

/** Shared documents of several agents: edited everywhere, equal in the end, and nothing that was stored is lost. */
export class SharedDocuments implements Capability {
  readonly name = 'documents';
  readonly weight = 16;
  readonly #fabric: Fabric;
  readonly #replicas = new Set<Replica>();
  /** Tokens that are on the disk of their author, by document. */
  readonly #stored = new Map<string, Set<string>>();
  readonly #deleted = new Set<string>();
  #token = 0;

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  /** The members of both documents: one agent of each node, outside of sandboxes. */
  enter(agent: Agent, role: Role, life: UpLife): void {
    if (role.sandbox !== undefined || life.station.roles.find(({ sandbox }) => sandbox === undefined) !== role) return;
    for (const name of NAMES) this.#replicas.add({ role, life, document: agent.state(name) });
  }

  onCrash(life: Life): void {
    for (const replica of this.#replicas) if (replica.life === life) this.#replicas.delete(replica);
  }

  act(dice: Dice): void {
    const replica = dice.pickMaybe(this.#live);
    if (!replica) return;
    const { document } = replica;
    const list = document.list('list');
    const draw = dice.next();
    const token = `${document.name} ${replica.role.id} ${this.#token++}`;
    try {
      if (draw < 0.45 && list.length < MAX_ITEMS) this.#insert(replica, token, dice);
      else if (draw < 0.65) document.map('map').set(`key-${dice.whole(0, 5)}`, { token, nested: [dice.whole(0, 9)] });
      else if (draw < 0.75) document.map('map').delete(`key-${dice.whole(0, 5)}`);
      else if (draw < 0.85) this.#write(document, token, dice);
      else if (list.length > 0) this.#delete(document, dice);
    } catch (error) {
      this.#fabric.violation('shared document', `${replica.life.name} could not change it: ${nameOf(error)}`);
    }
    this.#fabric.count('document change');
  }

  #insert({ document, life, role }: Replica, token: string, dice: Dice): void {
    const list = document.list('list');
    list.insert(dice.whole(0, list.length), token);
    document.stored().then(
      () => {
        if (life.state === 'crashed') return;
        this.#fabric.note(`${role.id} has stored ${token}`);
        const stored = this.#stored.get(document.name) ?? new Set();
        this.#stored.set(document.name, stored.add(token));
      },
      (error: unknown) => {
        const known = error instanceof EclipticError && ['STORE_FAILED', 'NODE_STOPPED'].includes(error.code);
        this.#fabric.check('shared document', known, () => `${token} was not stored: ${nameOf(error)}`);
      },
    );
  }

  #write(document: SharedDocument, token: string, dice: Dice): void {
    const text = document.text('text');
    if (text.length < 1_000) text.insert(dice.whole(0, text.length), `${token};`);
    else text.delete(dice.whole(0, text.length - 500), dice.whole(1, 400));
  }

  #delete(document: SharedDocument, dice: Dice): void {
    const list = document.list('list');
    const index = dice.whole(0, list.length - 1);
    this.#deleted.add(list.get(index) as string);
    list.delete(index);
  }

  get #live(): Replica[] {
    return [...this.#replicas].filter(({ life }) => life.state === 'up' && life.station.removedAt === undefined);
  }

  left(): string[] {
    return NAMES.flatMap((name) => {
      const [first, ...others] = this.#live.filter(({ document }) => document.name === name);
      if (!first) return [];
      const vector = vectorOf(first);
      const behind = others.filter((other) => vectorOf(other) !== vector);
      return behind.map(({ life }) => `${life.name} has another version of ${name} than ${first.life.name}`);
    });
  }

  judge(): void {
    for (const name of NAMES) {
      const replicas = this.#live.filter(({ document }) => document.name === name);
      const [first] = replicas;
      if (!first) continue;
      const content = canonicalJson(first.document.toJSON());
      for (const { document, life } of replicas) {
        const alike = canonicalJson(document.toJSON()) === content;
        this.#fabric.check('shared document', alike, () => `${life.name} has other content of ${name}`);
      }
      const items = new Set(first.document.list('list').toJSON());
      for (const token of this.#stored.get(name) ?? []) {
        const kept = items.has(token) || this.#deleted.has(token);
        this.#fabric.check('shared document', kept, () => `${token} was stored, and is lost`);
      }
    }
  }
}

function vectorOf({ document }: Replica): string {
  return JSON.stringify(Object.entries(document.vector).sort());
}
