import type { Agent } from '../../src/agent/agent.js';
import type { SubTaskInput } from '../../src/agent/agent-swarms.js';
import { EclipticError } from '../../src/runtime/errors.js';
import type { SwarmMachine } from '../../src/work/swarm/swarm-machine.js';
import type { Capability } from './capability.js';
import type { Dice } from './dice.js';
import { type Fabric, NEVER, nameOf, type Role, type UpLife } from './fabric.js';

const CAPABILITIES = ['dig', 'carry'];
/** Each swarm takes part of every history that has one, so a few are enough. */
const MAX_SWARMS = 3;

interface Swarm {
  readonly id: string;
  readonly life: UpLife;
  /** Has its creator learned that it is recorded? */
  active: boolean;
}

/** Swarms whose members crash: each sub-task has one result for ever, and every swarm ends. */
export class SwarmsAtWork implements Capability {
  readonly name = 'swarms';
  readonly weight = 2;
  readonly #fabric: Fabric;
  readonly #swarms: Swarm[] = [];
  /** The first result of each sub-task that any node saw. */
  readonly #results = new Map<string, unknown>();
  readonly #worked = new Set<string>();

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  enter(agent: Agent, role: Role, life: UpLife): void {
    if (role !== life.station.roles[0]) return;
    agent.update({ capabilities: CAPABILITIES });
    agent.onTask(async (task) => {
      const { swarm, subTask, results } = task.message.parts[1]!.data as SubTaskInput;
      if (life.state === 'crashed') return NEVER;
      for (const [id, result] of Object.entries(results)) {
        const known = this.#results.get(`${swarm} ${id}`);
        this.#fabric.check('swarm', known === undefined || known === result, () => `${id} is passed on as ${result}`);
      }
      this.#fabric.note(`${life.name} works on ${subTask} of ${swarm}`);
      await life.runtime.pause(100 + 20 * subTask.length * workload(results));
      this.#worked.add(`${swarm} ${subTask}`);
      return `${subTask} by ${life.name} at ${Math.round(this.#fabric.now)}`;
    });
  }

  act(dice: Dice): void {
    if (this.#swarms.length >= MAX_SWARMS) return;
    const life = dice.pickMaybe(this.#fabric.up.filter(({ station }) => station.removedAt === undefined));
    const role = life?.station.roles[0];
    if (!life || !role) return;
    const id = `swarm-${this.#swarms.length}`;
    const plan = Array.from({ length: dice.whole(2, 8) }, (_, at) => ({
      id: `t${at}`,
      description: `part ${at}`,
      requiredCapabilities: [dice.pick(CAPABILITIES)],
      dependsOn: at < 2 ? [] : [`t${dice.whole(0, at - 1)}`],
    }));
    const terms = { recruitMs: 3_000, leaseMs: 3_000, attempts: 8, patienceMs: 20_000 };
    const swarm: Swarm = { id, life, active: false };
    this.#swarms.push(swarm);
    this.#fabric.note(`${role.id} forms ${id}`);
    this.#fabric.count('swarm');
    const run = life.agents.get(role.id)!.swarm('everything', { id, capabilities: CAPABILITIES, plan, ...terms });
    run.active.then(
      () => {
        if (life.state === 'crashed') return;
        swarm.active = true;
        this.#fabric.note(`${id} is active`);
      },
      (error: unknown) => {
        const typed = error instanceof EclipticError;
        this.#fabric.check('swarm', typed, () => `${id} was not formed: ${nameOf(error)}`);
      },
    );
  }

  #machines(id: string): { readonly life: UpLife; readonly machine: SwarmMachine }[] {
    return this.#fabric.up.flatMap((life) => {
      const coordinators = [...life.node.swarms.coordinators.values()];
      return coordinators.flatMap(({ participations }) => {
        const found = participations.get(id);
        return found ? [{ life, machine: found.machine }] : [];
      });
    });
  }

  /** All nodes agree on every committed result, for ever. */
  look(): void {
    for (const { id } of this.#swarms) {
      for (const { life, machine } of this.#machines(id)) {
        for (const [subTask, { status, result }] of machine.board.subTasks) {
          if (status !== 'completed') continue;
          const key = `${id} ${subTask}`;
          const before = this.#results.get(key);
          if (before === undefined) this.#results.set(key, result);
          const same = before === undefined || before === result;
          this.#fabric.check('swarm', same, () => `${key} was "${before}", and at ${life.name} is "${result}"`);
        }
      }
    }
  }

  /** Seats of removed nodes are gone for ever: a majority of the others may be missing. */
  #canEnd(machine: SwarmMachine): boolean {
    const seats = machine.swarm?.seats ?? [];
    const removed = this.#fabric.stations.filter(({ removedAt }) => removedAt !== undefined);
    return seats.every((seat) => removed.every(({ key }) => !seat.endsWith(key)));
  }

  left(): string[] {
    this.look();
    return this.#swarms.flatMap(({ id }) =>
      this.#machines(id)
        .filter(({ life }) => life.station.removedAt === undefined)
        .filter(({ machine }) => machine.seated && this.#canEnd(machine) && machine.endedAs === undefined)
        .map(({ life }) => `${life.name} does not know the end of ${id}`),
    );
  }

  judge(): void {
    for (const { id, active, life } of this.#swarms) {
      const over = this.#machines(id).filter(({ machine }) => machine.seated && machine.endedAs !== undefined);
      const [first] = over;
      const gone = life.station.removedAt !== undefined;
      const known = !active || gone || this.#machines(id).length > 0;
      this.#fabric.check('swarm', known, () => `${id} was active, and no node knows of it`);
      if (!first) continue;
      const outcome = first.machine.board.outcome()!;
      for (const { machine, life: other } of over) {
        const alike = JSON.stringify(machine.board.outcome()) === JSON.stringify(outcome);
        this.#fabric.check('swarm', alike, () => `${other.name} knows another end of ${id}`);
      }
      const { status, results, escalations, reason } = outcome;
      this.#fabric.count(`swarm ${status}`);
      if (status === 'failed') {
        const told = reason !== undefined || escalations.length > 0;
        this.#fabric.check('swarm', told, () => `${id} failed without a reason`);
        continue;
      }
      for (const subTask of first.machine.board.subTasks.keys()) {
        const key = `${id} ${subTask}`;
        const settled = results[subTask] === this.#results.get(key) && this.#worked.has(key);
        this.#fabric.check('swarm', settled, () => `${key} has a result that no worker made`);
      }
    }
  }
}

function workload(results: Readonly<Record<string, unknown>>): number {
  return 1 + Object.keys(results).length;
}
