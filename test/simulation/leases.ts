import { join } from 'node:path';
import type { CodingAgents } from '../../src/coding-agents/coding-agents.js';
import { overlaps } from '../../src/coding-agents/leases/glob.js';
import type { LeaseView } from '../../src/coding-agents/leases/leases.js';
import { EclipticError } from '../../src/runtime/errors.js';
import type { Capability } from './capability.js';
import type { Dice } from './dice.js';
import { type Fabric, nameOf, type UpLife } from './fabric.js';

const GLOBS = ['src/a.ts', 'src/*.ts', 'src/b/**', 'docs/x.md', '**/*.md'];
const REPOSITORY = 'repository';

interface Desk {
  readonly life: UpLife;
  readonly codingAgents: CodingAgents;
  readonly member: string;
}

/** Files that the agents of all nodes reserve in one repository: no two hold the same at one time. */
export class Leases implements Capability {
  readonly name = 'leases';
  readonly weight = 6;
  readonly #fabric: Fabric;
  readonly #desks = new Set<Desk>();
  readonly #pending = new Map<string, UpLife>();
  #next = 0;
  #released = false;

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  async began(life: UpLife): Promise<void> {
    const identify = async (root: string) => ({ id: REPOSITORY, name: 'here', root });
    const codingAgents = await life.node.openCodingAgents(join(life.station.folder, 'person'), { identify });
    const about = { as: `${life.station.name}m`, client: 'simulated', checkout: '/work' };
    const { name } = await codingAgents.attach(about);
    this.#desks.add({ life, codingAgents, member: name });
  }

  act(dice: Dice): void {
    const desk = dice.pickMaybe(this.#live);
    if (!desk) return;
    const { leases } = desk.codingAgents;
    const holder = leases.address(desk.member);
    const draw = dice.next();
    const ttlMs = Math.round(dice.between(2_000, 30_000));
    if (draw < 0.5) {
      const wanted = dice
        .shuffled(GLOBS)
        .slice(0, dice.whole(1, 2))
        .map((glob) => ({ id: `lease-${this.#next++}`, glob }));
      this.#operate(desk, { kind: 'take', holder, wanted, ttlMs, why: 'work' });
    } else if (draw < 0.7) this.#operate(desk, { kind: 'renew', holder, ttlMs });
    else this.#operate(desk, { kind: 'release', holder });
    this.look();
  }

  #operate({ codingAgents, life, member }: Desk, operation: Parameters<CodingAgents['leases']['operate']>[1]): void {
    const about = `${operation.kind} ${this.#next++} of ${member}`;
    this.#fabric.note(about);
    this.#fabric.count(`lease ${operation.kind}`);
    this.#pending.set(about, life);
    const end = () => this.#pending.delete(about);
    codingAgents.leases.operate(REPOSITORY, operation).then(
      ({ confirmed, outcome }) => {
        end();
        const { leases, conflicts } = outcome;
        this.#fabric.note(
          `${about}: ${leases.length} leases, ${conflicts.length} conflicts${confirmed ? '' : ', unconfirmed'}`,
        );
        const whole = operation.kind !== 'take' || conflicts.length > 0 || leases.length >= operation.wanted.length;
        this.#fabric.check('lease', whole, () => `${about} got ${leases.length} of what it wanted`);
      },
      (error: unknown) => {
        end();
        const typed = error instanceof EclipticError;
        this.#fabric.check('lease', typed || life.state !== 'up', () => `${about} failed with ${nameOf(error)}`);
      },
    );
  }

  get #live(): Desk[] {
    return [...this.#desks].filter(({ life }) => life.state === 'up' && life.station.removedAt === undefined);
  }

  /** Leases that are confirmed, and whose holder is there. */
  get #held(): LeaseView[] {
    const held = this.#live.flatMap(({ codingAgents }) => codingAgents.leases.held);
    return held.filter(({ label, alive }) => label !== 'unconfirmed' && alive);
  }

  look(): void {
    const held = this.#held;
    for (const [at, one] of held.entries()) {
      for (const other of held.slice(at + 1)) {
        if (one.holder === other.holder) continue;
        const apart = !overlaps(one.glob, other.glob);
        this.#fabric.check('lease', apart, () => `${one.holder} holds ${one.glob}, and ${other.holder} ${other.glob}`);
      }
    }
  }

  /** At rest, everything that was taken is released or has expired. */
  left(): string[] {
    const left = [...this.#pending]
      .filter(([, life]) => life.state === 'up')
      .map(([about]) => `${about} has not ended`);
    if (left.length > 0) return left;
    if (!this.#released) {
      this.#released = true;
      for (const desk of this.#live) {
        const holder = desk.codingAgents.leases.address(desk.member);
        this.#operate(desk, { kind: 'release', holder });
      }
      return ['leases are being released'];
    }
    return this.#live.flatMap(({ codingAgents, life }) =>
      codingAgents.leases.held.map(({ glob }) => `${life.name} still holds ${glob}`),
    );
  }
}
