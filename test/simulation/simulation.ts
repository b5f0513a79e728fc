import type { Message } from '../../src/agent/message.js';
import type { AgentTier } from '../../src/mesh/schemas.js';
import { createNode } from '../../src/node/compose.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import { type Capability, noteOf } from './capability.js';
import type { Subject } from './contract.js';
import { Conversations } from './conversations.js';
import { Dice } from './dice.js';
import { SharedDocuments } from './documents.js';
import { Fabric, LAB, type Life, type UpLife } from './fabric.js';
import { drawWeather, Faults } from './faults.js';
import { Health } from './health.js';
import { HostileMember } from './hostile.js';
import { Leases } from './leases.js';
import { DurableMail } from './mail.js';
import { Removals } from './membership.js';
import { Messages } from './messages.js';
import { Proposals } from './proposals.js';
import { Providers } from './providers.js';
import { SwarmsAtWork } from './swarms.js';
import { Tools } from './tools.js';

/** Something that happens at a time: a fault, or work. Its own seed decides the rest, so events can be left out. */
export interface PlannedEvent {
  readonly at: number;
  readonly kind: 'fault' | 'work';
  readonly seed: number;
}

export interface Violation {
  readonly subject: Subject;
  readonly text: string;
  readonly at: number;
}

/** One history. */
export interface Outcome {
  readonly seed: number;
  /** Frames that arrived, timers that fired, and writes. */
  readonly events: number;
  /** Of all steps and observations with their times. */
  readonly hash: string;
  readonly violations: readonly Violation[];
  readonly log: readonly string[];
  readonly counts: ReadonlyMap<string, number>;
  /** How often each line of the contract was examined. */
  readonly checks: ReadonlyMap<Subject, number>;
  readonly plan: readonly PlannedEvent[];
  /** When the faults ended. */
  readonly endAt: number;
}

export interface SimulationOptions {
  readonly seed: number;
  /** The faults end when this much has happened. */
  readonly events: number;
  /** Only these events happen, instead of those that the seed draws, until then. */
  readonly replay?: { readonly plan: readonly PlannedEvent[]; readonly endAt: number };
}

/** How long the mesh may take to come to rest once the faults are over: longer than any retry and time to live. */
const REST_MS = 300_000;
/** How often the checkers look while the faults go on. */
const LOOK_MS = 500;

let warm: Promise<void> | undefined;

/** The first check of a schema loads its library, which takes real time: no history may begin with that. */
async function warmUp(): Promise<void> {
  const node = await createNode({ runtime: new SimulatedRuntime() });
  const agent = node.agent({ id: 'first', tier: 0 });
  agent.tool('count', { inputSchema: { type: 'object', required: ['call'] } }, () => 'one');
  await agent.mcp.call('first.count', { call: 1 });
  await node.stop();
}

/** Runs one history: faults and work, then no faults, then everything must have ended well. */
export async function simulate(options: SimulationOptions): Promise<Outcome> {
  warm ??= warmUp();
  await warm;
  const simulation = new Simulation(options);
  const onRejection = (error: unknown) =>
    simulation.fabric.violation('handlers', `a promise was rejected, and nothing handled it: ${String(error)}`);
  process.on('unhandledRejection', onRejection);
  try {
    await simulation.run();
  } catch (error) {
    const what = error instanceof Error ? error.stack : String(error);
    simulation.fabric.violation('stopping', `the history broke off: ${what}`);
  } finally {
    process.off('unhandledRejection', onRejection);
    simulation.fabric.cleanUp();
  }
  return simulation.outcome();
}

class Simulation {
  readonly fabric: Fabric;
  readonly #options: SimulationOptions;
  readonly #dice: Dice;
  readonly #faults: Faults;
  readonly #capabilities: readonly Capability[];
  readonly #plan: PlannedEvent[] = [];
  #endAt = 0;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#dice = new Dice(options.seed);
    const fabric = new Fabric(options.seed, { steady: this.#dice.chance(0.4) });
    this.fabric = fabric;
    this.#faults = new Faults(fabric, drawWeather(this.#dice));
    this.#capabilities = this.#draw([
      new Messages(fabric),
      new DurableMail(fabric),
      new SharedDocuments(fabric),
      new Proposals(fabric),
      new Tools(fabric),
      new Providers(fabric),
      new Leases(fabric),
      new Conversations(fabric),
      new SwarmsAtWork(fabric),
      new Removals(fabric),
      new HostileMember(fabric),
    ]);
    fabric.onUp = (life) => this.#populate(life);
    fabric.onEvent = (life, event) => {
      for (const capability of this.#capabilities) capability.onEvent?.(event, life);
    };
    const noted = fabric.onCrash;
    fabric.onCrash = (life: Life) => {
      noted(life);
      for (const capability of this.#capabilities) capability.onCrash?.(life);
    };
  }

  outcome(): Outcome {
    const { seed, steps, log, violations, counts, checks } = this.fabric;
    const hash = this.fabric.traceHash();
    return { seed, events: steps, hash, violations, log, counts, checks, plan: this.#plan, endAt: this.#endAt };
  }

  async run(): Promise<void> {
    await this.#assemble();
    this.#faults.begin();
    const { replay } = this.#options;
    if (replay) await this.#replay(replay.plan, replay.endAt);
    else await this.#torment();
    this.#endAt = Math.round(this.fabric.now);
    for (const capability of this.#capabilities) capability.calm?.();
    await this.#faults.calm();
    await this.#rest();
    for (const capability of this.#capabilities) await capability.judge?.();
    await this.#stopAll();
  }

  /** Some histories have only some of the work, so that much of it happens. */
  #draw(work: readonly Capability[]): Capability[] {
    const dice = this.#dice;
    const all = dice.chance(0.3);
    const drawn = work.filter(() => all || dice.chance(0.6));
    return [...(drawn.length > 0 ? drawn : work), new Health(this.fabric)];
  }

  async #assemble(): Promise<void> {
    const dice = this.#dice;
    const { fabric } = this;
    const count = dice.pick([3, 3, 3, 3, 4, 4, 5, 6, 7, 9]);
    for (let index = 0; index < count; index++) {
      const station = fabric.station(`n${index}`);
      const agents = dice.whole(1, 3);
      for (let at = 0; at < agents; at++) {
        const tier = at === 0 ? 0 : dice.pick<AgentTier>([0, 1, 2, 3, 3]);
        const sandbox = at === 2 && dice.chance(0.5) ? LAB : undefined;
        station.roles.push({ id: `${station.name}${'abc'[at]}`, station, tier, sandbox });
      }
    }
    for (const station of fabric.stations) await fabric.settled(fabric.start(station));
    const [host, ...guests] = fabric.stations.map(({ life }) => (life as UpLife).node);
    for (const guest of guests) {
      const { code } = await fabric.settled(host!.network.invite());
      await fabric.settled(guest.network.join(code));
    }
    const hostile = this.#capabilities.find((capability) => capability instanceof HostileMember);
    await hostile?.join(host!);
    const left = () => this.#capabilities.at(-1)!.left!() as string[];
    await fabric.until('the mesh comes together', () => left().length === 0, 120_000);
  }

  async #populate(life: UpLife): Promise<void> {
    for (const role of life.station.roles) {
      const agent = life.agents.get(role.id)!;
      for (const capability of this.#capabilities) capability.enter?.(agent, role, life);
      agent.onNotification((message) => this.#find(message)?.onMessage?.(message, role, life) as Promise<void>);
      agent.onMessage((message) => this.#find(message)?.onMessage?.(message, role, life) as Promise<void>);
      agent.onRequest((message) => this.#find(message)?.onRequest?.(message, role, life));
    }
    for (const capability of this.#capabilities) await capability.began?.(life);
  }

  #find(message: Message): Capability | undefined {
    const note = noteOf(message.payload);
    return this.#capabilities.find(({ name }) => name === note?.cap);
  }

  /** Work and faults, until enough has happened. */
  async #torment(): Promise<void> {
    const dice = this.#dice;
    const pace = dice.pick([20, 60, 150]);
    const calm = dice.pick([800, 2_000, 6_000]);
    let trouble = this.fabric.now + dice.between(0, calm);
    const until = this.fabric.steps + this.#options.events;
    while (this.fabric.steps < until) {
      const isTrouble = trouble <= this.fabric.now;
      const event: PlannedEvent = {
        at: Math.round(this.fabric.now),
        kind: isTrouble ? 'fault' : 'work',
        seed: dice.seed(),
      };
      // Troubles come in packs: the next one often strikes while the mesh still recovers.
      if (isTrouble) trouble = this.fabric.now + (dice.chance(0.4) ? dice.between(1, 500) : dice.between(0, 2 * calm));
      this.#happen(event);
      await this.#wait(dice.whole(0, 2 * pace));
    }
  }

  async #replay(plan: readonly PlannedEvent[], endAt: number): Promise<void> {
    for (const event of plan) {
      await this.#wait(event.at - Math.round(this.fabric.now));
      this.#happen(event);
    }
    await this.#wait(endAt - Math.round(this.fabric.now));
  }

  #looked = 0;

  async #wait(ms: number): Promise<void> {
    // Sums of fractions are not exact.
    const end = Math.round(this.fabric.now + ms);
    while (this.fabric.now < end - 0.01) {
      const next = Math.min(end, this.#looked + LOOK_MS);
      await this.fabric.runtime.advance(Math.max(0.01, next - this.fabric.now));
      if (this.fabric.now >= this.#looked + LOOK_MS - 0.01) this.#look();
    }
  }

  #look(): void {
    this.#looked = Math.round(this.fabric.now);
    for (const capability of this.#capabilities) capability.look?.();
  }

  #happen(event: PlannedEvent): void {
    this.#plan.push(event);
    const dice = new Dice(event.seed);
    if (event.kind === 'fault') this.#faults.strike(dice);
    else dice.weighted(this.#capabilities).act(dice);
  }

  /** Without faults, everything must end. */
  async #rest(): Promise<void> {
    const began = this.fabric.now;
    for (;;) {
      const left = await this.#left();
      if (left.length === 0) break;
      if (this.fabric.now - began > REST_MS) {
        for (const { subject, text } of left.slice(0, 10))
          this.fabric.violation(subject, `after ${REST_MS} ms: ${text}`);
        break;
      }
      await this.#wait(500);
    }
    this.fabric.count('seconds to rest', Math.round((this.fabric.now - began) / 1_000));
    this.fabric.note('at rest');
  }

  async #left(): Promise<{ subject: Subject; text: string }[]> {
    const left: { subject: Subject; text: string }[] = [];
    for (const { name, left: of } of this.#capabilities.map((one) => ({ name: one.name, left: one.left?.bind(one) }))) {
      for (const text of (await of?.()) ?? []) left.push({ subject: LIVENESS[name]!, text });
    }
    return left;
  }

  async #stopAll(): Promise<void> {
    const { fabric } = this;
    for (const life of fabric.up) await fabric.settled(fabric.stop(life));
    // Callbacks of crashed processes still wait on the common clock, for nothing.
    await fabric.runtime.runUntilIdle();
    fabric.check('stopping', fabric.runtime.pending === 0, () => `${fabric.runtime.pending} tasks are left over`);
  }
}

/** The line of the contract that is broken if the work of a capability does not end. */
const LIVENESS: Readonly<Record<string, Subject>> = {
  messages: 'request',
  mail: 'durable message',
  documents: 'shared document',
  health: 'cards of other nodes',
  proposals: 'proposal',
  conversations: 'channel to another node',
  swarms: 'swarm',
  tools: 'tool call',
  providers: 'provider work',
  leases: 'lease',
  membership: 'membership',
};
