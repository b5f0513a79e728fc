import type { SubTaskInput } from '../../src/agent/agent-swarms.js';
import { EclipticError } from '../../src/runtime/errors.js';
import type { Runtime } from '../../src/runtime/runtime.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import type { SwarmMachine } from '../../src/work/swarm/swarm-machine.js';
import { type Life, type Station, World } from '../durable/simulated-mail.js';
import { MemoryLogs } from '../memory-logs.js';

export interface SwarmSeedResult {
  readonly seed: number;
  readonly log: readonly string[];
  readonly violations: readonly string[];
  /** How it ended: `completed`, `failed`, `stalled`, `not formed`. */
  readonly end: string;
  readonly kills: number;
}

const NODES = 9;
const SUB_TASKS = 30;
const CAPABILITIES = ['a', 'b', 'c'];
const SWARM_ID = 'the-swarm';

/** Nine nodes with disks, perhaps a broker, thirty sub-tasks, and whatever the seed has in store for them. */
export async function runSwarmSeed(seed: number, place?: 'broker'): Promise<SwarmSeedResult> {
  const simulation = new SwarmSimulation(seed, place && new MemoryLogs());
  try {
    await simulation.run();
  } catch (error) {
    simulation.violation(`the scenario broke: ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    await simulation.world.end();
  }
  const { log, violations, end, kills } = simulation;
  return { seed, log, violations, end, kills };
}

class SwarmSimulation {
  readonly log: string[] = [];
  readonly violations: string[] = [];
  readonly world: World;
  end = 'nothing';
  kills = 0;
  readonly #dice: SimulatedRuntime;
  readonly #start: number;
  /** The first committed result of each sub-task: no node may ever see another. */
  readonly #results = new Map<string, string>();
  /** Times that each sub-task's handler came to its end. */
  readonly #done = new Map<string, number>();
  readonly #workMs: number;
  readonly #failing: number;
  readonly #logs: MemoryLogs | undefined;

  constructor(seed: number, logs?: MemoryLogs) {
    this.#logs = logs;
    this.#dice = new SimulatedRuntime({ seed: seed * 7_919 + 13 });
    this.world = new World({ seed });
    this.#start = this.world.runtime.now();
    this.#workMs = this.#pick([100, 1_000, 4_000]);
    this.#failing = this.#pick([0, 0, 0, 0.1]);
  }

  async run(): Promise<void> {
    const { world } = this;
    for (let at = 0; at < NODES; at++) await this.#bringUp(world.station(`n${at}`));
    const [host, ...guests] = world.stations;
    for (const guest of guests) await world.nodes.join(guest.life!.node, host!.life!.node);
    await world.connected();
    const sun = () => host!.life?.node.agentById('sun');
    await world.until(() => CAPABILITIES.every((id) => host!.life!.node.registry.findByCapability(id).length > 4));
    const run = sun()!.swarm('everything', {
      id: SWARM_ID,
      capabilities: CAPABILITIES,
      plan: this.#plan(),
      recruitMs: 3_000,
      leaseMs: 3_000,
      attempts: 8,
      patienceMs: 20_000,
    });
    await world.settled(run.active);
    this.note(`active: ${run.session!.participants.length} participants, ${run.session!.standby.length} stand by`);
    await this.#torment();
    await this.#recover();
    await this.#judge();
  }

  violation(text: string): void {
    this.violations.push(`${this.#time()} ${text}`);
  }

  note(text: string): void {
    this.log.push(`${this.#time()} ${text}`);
  }

  #plan() {
    return Array.from({ length: SUB_TASKS }, (_, at) => ({
      id: `t${at}`,
      description: `part ${at}`,
      requiredCapabilities: [CAPABILITIES[at % 3]!],
      dependsOn: at < 4 ? [] : [...new Set([this.#whole(0, at - 1), this.#whole(0, at - 1)])].map((n) => `t${n}`),
    }));
  }

  async #bringUp(station: Station): Promise<void> {
    const logs = this.#logs;
    const init = logs && { logs: ({ key }: { key: string }, runtime: Runtime) => logs.of(key, runtime) };
    const life = await this.world.start(station, init);
    const index = Number(station.name.slice(1));
    const { node } = life;
    if (index === 0) node.agent({ id: 'sun' });
    else {
      const capabilities = index % 4 === 0 ? CAPABILITIES : CAPABILITIES.filter((_, at) => at !== index % 3);
      node.agent({ id: `w${index}`, capabilities }).onTask(async (task) => {
        const input = task.message.parts[1]!.data as SubTaskInput;
        for (const [id, result] of Object.entries(input.results)) {
          if (result !== this.#results.get(id) && this.#results.has(id))
            this.violation(`${id} is passed on as ${result}`);
          if (result === undefined || result === null) this.violation(`${input.subTask} lacks ${id}`);
        }
        await life.runtime.pause(this.#dice.random() * this.#workMs);
        if (this.#dice.random() < this.#failing) throw new EclipticError('HANDLER_FAILED', 'it did not work out');
        this.#done.set(input.subTask, (this.#done.get(input.subTask) ?? 0) + 1);
        return `${input.subTask} by ${life.name} at ${this.#time()}`;
      });
    }
    this.note(`${life.name} is up`);
  }

  /** Kills and cuts at random, the creator's node as often as any other. */
  async #torment(): Promise<void> {
    const { world } = this;
    world.nodes.network.faults = { loss: this.#pick([0, 0, 0.1]), duplication: 0, latencyMs: [1, this.#pick([5, 50])] };
    if (this.#logs) this.#logs.loss = this.#pick([0, 0, 0.1]);
    const until = world.runtime.now() + this.#pick([10_000, 30_000, 60_000]);
    while (world.runtime.now() < until && !this.#ended()) {
      await world.runtime.advance(this.#dice.random() * 5_000);
      this.#look();
      const station = world.stations[this.#whole(0, NODES - 1)]!;
      const draw = this.#dice.random();
      if (draw < 0.5 && station.life) {
        this.kills++;
        this.note(`${station.life.name} is killed`);
        world.crash(station.life, this.#dice.random() < 0.5);
      } else if (draw < 0.8 && !station.life) await this.#bringUp(station);
      else if (draw < 0.9) {
        const other = world.stations[this.#whole(0, NODES - 1)]!;
        if (other !== station) world.nodes.network.cut(station.key, other.key);
        this.note(`${station.name} and ${other.name} are cut apart`);
      } else if (this.#logs && draw < 0.95) {
        this.#logs.cut(station.key);
        this.note(`${station.name} is cut off from the broker`);
      } else {
        world.nodes.network.healAll();
        this.#logs?.heal();
      }
    }
  }

  async #recover(): Promise<void> {
    const { world } = this;
    world.nodes.network.healAll();
    this.#logs?.heal();
    if (this.#logs) this.#logs.loss = 0;
    world.nodes.network.faults = { loss: 0, duplication: 0, latencyMs: [1, 1] };
    this.note('everything is healed');
    for (const station of world.stations) {
      if (!station.life && this.#dice.random() < 0.6) await this.#bringUp(station);
    }
    for (let passed = 0; passed < 300_000 && !this.#settledForGood(); passed += 500) {
      await world.runtime.advance(500);
      this.#look();
    }
  }

  get #machines(): { readonly life: Life; readonly machine: SwarmMachine }[] {
    return this.world.stations.flatMap(({ life }) => {
      if (!life) return [];
      const coordinators = [...life.node.swarms.coordinators.values()];
      const found = coordinators.flatMap(({ participations }) => participations.get(SWARM_ID) ?? []);
      return found.map(({ machine }) => ({ life, machine }));
    });
  }

  #ended(): boolean {
    return this.#machines.some(({ machine }) => machine.endedAs !== undefined);
  }

  /** All nodes know the outcome, or that there can be none. */
  #settledForGood(): boolean {
    return this.#machines.every(({ machine }) => machine.endedAs !== undefined || machine.stalled !== undefined);
  }

  /** All nodes must agree on every committed result, permanently. */
  #look(): void {
    for (const { life, machine } of this.#machines) {
      for (const [id, { status, result }] of machine.board.subTasks) {
        if (status !== 'completed') continue;
        const before = this.#results.get(id);
        if (before === undefined) this.#results.set(id, result as string);
        else if (before !== result) this.violation(`${id} was "${before}", and at ${life.name} is "${result}"`);
      }
      const participants = machine.board.participants;
      for (const who of participants) {
        const has = [...machine.board.subTasks.values()].some(({ assigned }) => assigned === who);
        if (!has) this.violation(`${who} takes part and has nothing to do`);
      }
    }
  }

  async #judge(): Promise<void> {
    for (const { life } of this.world.stations) {
      for (const error of life?.errors ?? []) this.violation(`${life!.name} logged ${error}`);
    }
    const seated = this.#machines.filter(({ machine }) => machine.seated);
    const over = seated.filter(({ machine }) => machine.endedAs !== undefined);
    if (over.length === 0) {
      this.end = 'stalled';
      const enough = this.#logs ? 1 : 5;
      if (seated.length >= enough) this.violation(`${seated.length} of 9 seats are up, and it does not end`);
      for (const { life, machine } of seated) if (!machine.stalled) this.violation(`${life.name} does not say why`);
      return;
    }
    if (over.length < seated.length) this.violation('not every seat knows the end');
    const outcomes = over.map(({ machine }) => machine.board.outcome()!);
    const [first] = outcomes;
    this.end = first!.status;
    for (const outcome of outcomes) {
      if (JSON.stringify(outcome) !== JSON.stringify(first)) this.violation('two seats know different ends');
    }
    const { status, results, escalations, reason } = first!;
    if (status === 'failed' && (escalations.length === 0 || !reason)) this.violation('it failed without a reason');
    if (status === 'failed') return;
    for (let at = 0; at < SUB_TASKS; at++) {
      if (results[`t${at}`] !== this.#results.get(`t${at}`)) this.violation(`t${at} is not what was settled`);
      if (!this.#done.has(`t${at}`)) this.violation(`t${at} has a result, and nobody worked on it`);
    }
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#dice.random() * from.length)]!;
  }

  #whole(least: number, most: number): number {
    return least + Math.floor(this.#dice.random() * (most - least + 1));
  }

  #time(): string {
    return ((this.world.runtime.now() - this.#start) / 1_000).toFixed(3);
  }
}
