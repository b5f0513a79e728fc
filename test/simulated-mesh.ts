import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Agent } from '../src/agent/agent.js';
import type { Message } from '../src/agent/message.js';
import type { StreamReader } from '../src/agent/streams.js';
import type { A2AChannel } from '../src/mesh/channel.js';
import type { A2ALogEvent, A2AMessageType, AgentCard, AgentTier } from '../src/mesh/schemas.js';
import type { Discovery, Seeker } from '../src/network/discovery/discovery.js';
import { MemoryRendezvous } from '../src/network/discovery/memory-discovery.js';
import type { Link } from '../src/network/links/link.js';
import { type Faults, MemoryLink, MemoryNetwork, type Parcel } from '../src/network/links/memory-network.js';
import type { InviteOptions } from '../src/network/peers/network.js';
import type { PeerLimits } from '../src/network/peers/peer-state.js';
import { createNode } from '../src/node/compose.js';
import { EclipticError, type ErrorCode, isErrorCode } from '../src/runtime/errors.js';
import type { Logger, Runtime, Timer } from '../src/runtime/runtime.js';
import { SimulatedRuntime } from '../src/runtime/simulated-runtime.js';
import type { NetworkedNode } from './nodes-fixture.js';

export interface SeedResult {
  readonly seed: number;
  /** The events with their virtual times; the same seed gives the same lines. */
  readonly log: readonly string[];
  /** Which promises were broken. None, if all is well. */
  readonly violations: readonly string[];
  /** How often each kind of thing happened, to see that something did. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Runs one mesh through the faults that the seed draws, and checks the observations of its nodes and agents. */
export async function runSeed(seed: number): Promise<SeedResult> {
  const simulation = new Simulation(seed);
  try {
    await simulation.run();
  } catch (error) {
    simulation.violation(`the scenario broke: ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    simulation.cleanUp();
  }
  const { log, violations, counts } = simulation;
  return { seed, log, violations, counts: Object.fromEntries(counts) };
}

/** The report of a failed seed. */
export function describeFailure({ seed, violations, log }: SeedResult, lines = 40): string {
  const replay = `ECLIPTIC_SEED=${seed} npx vitest run test/simulated-mesh.test.ts`;
  return [
    `seed ${seed} breaks ${violations.length} promise(s); replay with: ${replay}`,
    ...violations.slice(0, 12).map((violation) => `  ✗ ${violation}`),
    ...log.slice(Math.max(0, log.length - lines)).map((line) => `    ${line}`),
  ].join('\n');
}

/** The tiers that each tier may open a conversation with, written down again: the oracle must not be the suspect. */
const MAY_OPEN: Readonly<Record<AgentTier, readonly AgentTier[]>> = {
  0: [0, 1, 2, 3],
  1: [0, 1],
  2: [0, 1, 2],
  3: [0, 1, 2, 3],
};
const SHARED_SANDBOX = 'lab';
const OWN_SANDBOX = 'cell';
const POLICY_CODES: ReadonlySet<string> = new Set(['TIER_VIOLATION', 'SANDBOX_VIOLATION', 'ESCALATION_REQUIRED']);
/** A changed tier may be unknown to a node that is away for this long. */
const NEWS_MS = 70_000;
const SETTLE_MS = 180_000;

/** The identity of an agent, across processes. */
interface Role {
  readonly id: string;
  readonly place: Place;
  tier: AgentTier;
  tierChangedAt: number;
  readonly sandbox: string | undefined;
  capabilities: string[];
  description: string;
  /** Should it be there while its node is up? */
  present: boolean;
}

/** A node as others know it: its key, its folder, its agents. Processes come and go. */
interface Place {
  readonly name: string;
  readonly folder: string;
  readonly grant: InviteOptions;
  /** Nodes need not be equally patient. */
  readonly limits: Partial<PeerLimits>;
  /** How far its clock is ahead. */
  readonly skewMs: number;
  readonly roles: Role[];
  key: string;
  life: Life | undefined;
  lives: number;
}

/** One process of a node, from its start to its end. */
interface Life {
  readonly name: string;
  readonly place: Place;
  readonly runtime: ProcessRuntime;
  readonly node: NetworkedNode;
  readonly agents: Map<string, Agent>;
  readonly channels: ChannelEnd[];
  readonly discovery: { current: Discovery | undefined };
  state: 'up' | 'stopped' | 'crashed';
}

interface ChannelEnd {
  readonly name: string;
  readonly channel: A2AChannel;
  readonly life: Life;
  readonly from: Role;
  readonly to: Role | undefined;
}

type OpKind = 'send' | 'request' | 'stream' | 'send-stream' | 'open-channel' | 'channel' | 'capability' | 'broadcast';

/** An operation of an agent, and its outcome. */
interface Op {
  readonly index: number;
  readonly kind: OpKind;
  readonly life: Life;
  readonly from: Role;
  /** Undefined where anyone may get it. */
  readonly to: Role | undefined;
  /** Messages of one path are numbered, and arrive in that order. */
  readonly path: string;
  readonly n: number;
  readonly about: string;
  outcome: 'pending' | 'resolved' | EclipticError | 'broken';
  /** Handlers that got it. */
  readonly heardBy: Role[];
  /** Chunks that a stream should have. */
  chunks: number;
}

interface Note {
  readonly op: number;
  readonly n: number;
  readonly tier: AgentTier;
  readonly chunks?: number;
  readonly fails?: boolean;
  readonly delayMs?: number;
}

class Simulation {
  readonly log: string[] = [];
  readonly violations: string[] = [];
  readonly counts = new Map<string, number>();
  readonly #dice: Dice;
  readonly #runtime: SimulatedRuntime;
  readonly #network: UnkindNetwork;
  /** Does everything happen at once, so that greetings meet crashes? */
  readonly #restless: boolean;
  readonly #meetings: MemoryRendezvous;
  readonly #folder = mkdtempSync(join(tmpdir(), 'ecliptic-sim-'));
  readonly #start: number;
  readonly #places: Place[] = [];
  readonly #ops: Op[] = [];
  readonly #channelNames = new Map<string, string>();
  readonly #cuts = new Map<string, number>();
  readonly #plans = new Set<Timer>();
  /** Requester and responder of each thread: their answers must pass. */
  readonly #asked = new Map<string, string>();
  readonly #numbers = new Map<string, number>();
  readonly #heard = new Map<string, number>();
  /** Handlers that are not through yet, by the process they run in. */
  readonly #busy = new Map<symbol, Life>();
  #hub: Role | undefined;
  #chaos = true;

  constructor(seed: number) {
    this.#dice = new Dice(seed);
    this.#runtime = new SimulatedRuntime({ seed });
    // Real links bring everything in order until they break; the simulated ones lose, repeat and reorder as well.
    const steady = this.#dice.chance(0.4);
    this.#network = steady ? new SteadyNetwork(this.#runtime) : new MemoryNetwork(this.#runtime);
    this.#restless = this.#dice.chance(0.35);
    this.#meetings = new MemoryRendezvous(this.#runtime, this.#network.connect);
    this.#start = this.#runtime.now();
  }

  async run(): Promise<void> {
    const dice = this.#dice;
    const joinUnderFaults = dice.chance(0.3);
    const faults = {
      loss: dice.chance(0.2) ? 0 : dice.between(0, 0.25),
      duplication: dice.chance(0.3) ? 0 : dice.between(0, 0.2),
      latencyMs: [1, this.#restless ? 200 : dice.pick([5, 20, 80, 200])] as const,
    };
    const { loss, duplication, latencyMs } = faults;
    const steady = this.#network instanceof SteadyNetwork;
    const unkind = steady ? 'in order' : `loss ${loss.toFixed(2)}, duplication ${duplication.toFixed(2)}, out of order`;
    this.note(`frames take up to ${latencyMs[1]} ms, ${unkind}${this.#restless ? '; nobody rests' : ''}`);
    if (joinUnderFaults) this.#network.faults = faults;
    await this.#assemble();
    this.#network.faults = faults;
    const end = this.#runtime.now() + dice.between(20_000, 60_000);
    const pace = dice.pick([30, 100, 300]);
    const calm = this.#restless ? 250 : dice.pick([1_500, 4_000, 10_000]);
    let trouble = this.#runtime.now() + dice.between(0, calm);
    while (this.#runtime.now() < end) {
      await this.#runtime.advance(Math.min(dice.between(0, 2 * pace), Math.max(0, trouble - this.#runtime.now())));
      const burst = dice.chance(0.1) ? dice.whole(2, 8) : 1;
      for (let at = 0; at < burst; at++) this.#act();
      if (this.#runtime.now() < trouble) continue;
      // Troubles come in packs: the next one often strikes while the mesh still recovers.
      trouble = this.#runtime.now() + dice.between(0, dice.chance(0.4) ? Math.min(600, calm) : 2 * calm);
      await this.#disturb();
    }
    await this.#recover();
    await this.#probe();
    this.#judgeOps();
    await this.#stopAll();
  }

  cleanUp(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  violation(text: string): void {
    this.violations.push(`${this.#time()} ${text}`);
    this.note(`VIOLATION ${text}`);
  }

  note(text: string): void {
    this.log.push(`${this.#time()} ${text}`);
  }

  // Nodes

  /** Draws the nodes and their agents, and makes them one mesh. */
  async #assemble(): Promise<void> {
    const dice = this.#dice;
    const count = this.#restless ? dice.whole(2, 3) : dice.whole(2, 4);
    for (let index = 0; index < count; index++) {
      const kind = index === 0 ? 'full' : dice.pick(['full', 'full', 'full', 'full', 'tiers', 'sandbox'] as const);
      this.#places.push(this.#draw(index, kind));
    }
    const open = this.#places.flatMap(({ roles }) => roles).filter(({ sandbox }) => sandbox === undefined);
    this.#hub = dice.pick(open);
    for (const place of this.#places) await this.#bringUp(place);
    for (const { life } of this.#places) life!.node.router.setSandboxConfig(this.#sandboxConfig());
    const [host, ...guests] = this.#places as [Place, ...Place[]];
    if (dice.chance(0.5)) {
      await this.#settled(Promise.all(guests.map((guest) => this.#join(guest, host))));
    } else {
      const hosts = [host];
      for (const guest of guests) {
        await this.#settled(this.#join(guest, dice.pick(hosts)));
        if (Object.keys(guest.grant).length === 0) hosts.push(guest);
      }
    }
    await this.#until('the mesh comes together', () => this.#whatDiffers().length === 0, 120_000);
  }

  #draw(index: number, kind: 'full' | 'tiers' | 'sandbox'): Place {
    const dice = this.#dice;
    const name = `n${index}`;
    const folder = join(this.#folder, name);
    mkdirSync(folder);
    const grant: InviteOptions =
      kind === 'full' ? {} : kind === 'tiers' ? { tiers: [2, 3] } : { sandboxes: [SHARED_SANDBOX] };
    const limits = dice.chance(0.5) ? {} : { graceMs: dice.between(3_000, 20_000) };
    const skewMs = dice.chance(0.7) ? 0 : Math.round(dice.between(-30_000, 30_000));
    const place: Place = { name, folder, grant, limits, skewMs, roles: [], key: '', life: undefined, lives: 0 };
    const agents = dice.whole(2, 4);
    for (let at = 0; at < agents; at++) {
      const tier = kind === 'tiers' ? dice.pick<AgentTier>([1, 2, 2, 3, 3, 3]) : dice.pick<AgentTier>([0, 1, 2, 3, 3]);
      const drawn = dice.chance(0.75) ? undefined : dice.pick([SHARED_SANDBOX, SHARED_SANDBOX, OWN_SANDBOX]);
      // One agent must be reachable from every sandbox.
      const sandbox = kind === 'sandbox' ? SHARED_SANDBOX : index === 0 && at === 0 ? undefined : drawn;
      place.roles.push({
        id: `${name}-${'abcd'[at]}`,
        place,
        tier,
        tierChangedAt: Number.NEGATIVE_INFINITY,
        sandbox,
        capabilities: dice.chance(0.4) ? ['work'] : [],
        description: 'first',
        present: true,
      });
    }
    return place;
  }

  #sandboxConfig() {
    const { id, place } = this.#hub!;
    return { enforced: true, shared: [SHARED_SANDBOX], crossSandboxAllowList: [`${id}@${place.key}`] };
  }

  async #join(guest: Place, host: Place): Promise<void> {
    const { code } = await host.life!.node.network.invite(guest.grant);
    for (let tries = 1; ; tries++) {
      try {
        await guest.life!.node.network.join(code);
        this.note(`${guest.name} joined by way of ${host.name}`);
        return;
      } catch (error) {
        this.note(`${guest.name} could not join: ${nameOf(error)}`);
        // Over a network that loses a quarter of everything this may happen, and trying again must help.
        if (!(error instanceof EclipticError) || error.code !== 'PEER_UNREACHABLE' || tries === 8) throw error;
      }
    }
  }

  async #bringUp(place: Place): Promise<void> {
    const name = `${place.name}/${++place.lives}`;
    const runtime = new ProcessRuntime(this.#runtime, place.skewMs, (message, error) => {
      if (message !== 'agent: handler failed') this.violation(`${name} logged "${message}": ${nameOf(error)}`);
    });
    const discovery: Life['discovery'] = { current: undefined };
    const join = (seeker: Seeker) => {
      discovery.current = this.#meetings.join(seeker);
      return discovery.current;
    };
    const sandbox = place.key === '' ? undefined : this.#sandboxConfig();
    const { limits } = place;
    const network = { name: place.name, folder: place.folder, limits, discovery: join };
    const node = (await createNode({ runtime, sandbox, network })) as NetworkedNode;
    if (place.key !== '' && place.key !== node.key) this.violation(`${name} has another key than before`);
    place.key = node.key;
    const life: Life = { name, place, runtime, node, agents: new Map(), channels: [], discovery, state: 'up' };
    place.life = life;
    this.note(`${name} is up`);
    const eager = this.#dice.chance(0.3);
    node.observability.subscribe((event) => this.#onEvent(life, event, eager));
    for (const role of place.roles) if (role.present) this.#enter(life, role);
  }

  /** Brings an agent to life. */
  #enter(life: Life, role: Role): void {
    role.present = true;
    const { id, tier, sandbox, capabilities, description } = role;
    const agent = life.node.agent({ id, tier, sandbox, capabilities, description });
    life.agents.set(id, agent);
    agent.onNotification((message) => this.#onMessage(life, role, message));
    agent.onMessage((message) => {
      if (message.type === 'task-proposal') this.#onMessage(life, role, message);
    });
    agent.onRequest((message) => this.#onRequest(life, role, message));
    agent.onStream((stream, message) => this.#onStream(life, role, stream, message));
    agent.onChannel((channel) => this.#onChannel(life, role, channel));
  }

  // Operations of agents

  #act(): void {
    const dice = this.#dice;
    const up = this.#places.filter(({ life }) => life !== undefined);
    const life = up.length > 0 ? dice.pick(up).life! : undefined;
    const from = life && dice.pickMaybe(life.place.roles.filter(({ present }) => present));
    if (!life || !from) return;
    const draw = dice.whole(0, 99);
    if (draw < 22 && life.channels.length > 0) {
      this.#channelSend(dice.pick(life.channels));
      return;
    }
    if (draw < 26) {
      this.#capability(life, from);
      return;
    }
    if (draw < 28) {
      this.#broadcast(life, from);
      return;
    }
    const elsewhere = this.#places.filter((place) => place !== life.place).flatMap(({ roles }) => roles);
    const to = dice.pick(dice.chance(0.95) ? elsewhere.filter(({ present }) => present) : elsewhere);
    if (!to) return;
    if (draw < 36) this.#openChannel(life, from, to);
    else if (draw < 42) this.#stream(life, from, to);
    else if (draw < 48) this.#sendStream(life, from, to);
    else if (draw < 68) this.#request(life, from, to);
    else this.#send(life, from, to);
  }

  /** In full, or just the id: that no other node has the like is for the registry to find out. */
  #address({ id, place }: Role): string {
    return this.#dice.chance(0.7) ? `${id}@${place.key}` : id;
  }

  #send(life: Life, from: Role, to: Role, why = ''): Op {
    const dice = this.#dice;
    const type: A2AMessageType = dice.chance(0.1) ? 'task-proposal' : 'notification';
    const justification = type === 'task-proposal' && dice.chance(0.5) ? 'it burns' : undefined;
    const address = this.#address(to);
    const plain = address === to.id;
    const op = this.#begin('send', life, from, to, `${type}${plain ? ' by its id' : ''}${why}`);
    const promise = life.agents.get(from.id)!.send(address, this.#payload(op), { type, justification });
    this.#track(op, promise, () => {
      if (plain) this.count('delivered by id alone');
    });
    return op;
  }

  #request(life: Life, from: Role, to: Role): Op {
    const dice = this.#dice;
    const timeoutMs = dice.pick([1_000, 5_000, 30_000]);
    const fails = dice.chance(0.1);
    const delayMs = dice.chance(0.3) ? dice.between(0, 8_000) : 0;
    const op = this.#begin('request', life, from, to, `within ${timeoutMs} ms`);
    const agent = life.agents.get(from.id)!;
    const promise = agent.request(this.#address(to), this.#payload(op, { fails, delayMs }), { timeoutMs });
    this.#track(op, promise, (answer) => {
      if (answer !== op.n) this.violation(`${op.about} was answered ${JSON.stringify(answer)}`);
    });
    return op;
  }

  #stream(life: Life, from: Role, to: Role): void {
    const chunks = this.#dice.whole(0, 12);
    const op = this.#begin('stream', life, from, to, `of ${chunks}`, chunks);
    const payload = this.#payload(op, { chunks, delayMs: this.#dice.pick([0, 100, 1_000]) });
    const reader = life.agents.get(from.id)!.stream(this.#address(to), payload, { timeoutMs: 10_000 });
    const leaveAt = this.#dice.chance(0.2) ? this.#dice.whole(0, chunks) : chunks + 1;
    this.#track(op, this.#read(op, reader, leaveAt));
  }

  #sendStream(life: Life, from: Role, to: Role): void {
    const chunks = this.#dice.whole(0, 12);
    const op = this.#begin('send-stream', life, from, to, `of ${chunks}`, chunks);
    const delayMs = this.#dice.pick([0, 50, 500]);
    const source = this.#source(life, op, delayMs);
    const address = this.#address(to);
    this.#track(op, life.agents.get(from.id)!.sendStream(address, source));
  }

  #openChannel(life: Life, from: Role, to: Role): void {
    const op = this.#begin('open-channel', life, from, to, '');
    this.#track(op, life.agents.get(from.id)!.openChannel(this.#address(to)), (channel) => {
      this.count('channels opened');
      this.#keepChannel(life, from, to, channel as A2AChannel);
    });
  }

  #channelSend(end: ChannelEnd): void {
    const { life, from, channel, to } = end;
    if (this.#dice.chance(0.05)) {
      this.note(`${from.id} closes ${end.name}`);
      void channel.close();
    }
    if (channel.status === 'closed' && this.#dice.chance(0.9)) {
      life.channels.splice(life.channels.indexOf(end), 1);
      return;
    }
    const burst = this.#dice.chance(0.3) ? this.#dice.whole(2, 6) : 1;
    for (let at = 0; at < burst; at++) {
      const op = this.#begin('channel', life, from, to, `on ${end.name}, ${channel.status}`, 0, `channel ${end.name}`);
      const envelope = life.node.envelopes.create({
        sender: channel.localAgentId,
        recipient: channel.remoteAgentId,
        type: 'notification',
        payload: this.#payload(op),
      });
      this.#track(op, channel.send(envelope));
    }
  }

  #capability(life: Life, from: Role): void {
    const op = this.#begin('capability', life, from, undefined, '');
    this.#track(op, life.agents.get(from.id)!.send({ capability: 'work' }, this.#payload(op)));
  }

  #broadcast(life: Life, from: Role): void {
    const op = this.#begin('broadcast', life, from, undefined, '');
    this.#track(op, life.agents.get(from.id)!.broadcast(this.#payload(op)), (result) => {
      const { recipients, delivered, withheld, failed } = (result as { broadcast: Record<string, number> }).broadcast;
      if (delivered! + withheld! + failed! !== recipients) this.violation(`the counts of ${op.about} do not add up`);
      if (op.heardBy.length < delivered!) this.violation(`${op.about} reached fewer than it says`);
    });
  }

  #begin(kind: OpKind, life: Life, from: Role, to: Role | undefined, detail: string, chunks = 0, path?: string): Op {
    const along = `${from.id} → ${to?.id ?? 'anyone'}, ${path ?? kind}`;
    const n = (this.#numbers.get(along) ?? 0) + 1;
    this.#numbers.set(along, n);
    const index = this.#ops.length;
    const about = `#${index} ${along} ${n}`;
    const op: Op = { index, kind, life, from, to, path: along, n, about, outcome: 'pending', heardBy: [], chunks };
    this.#ops.push(op);
    this.note(`${about}${detail && ` (${detail})`}`);
    this.count(kind);
    return op;
  }

  #payload({ index, n, from }: Op, more: Partial<Note> = {}): Note {
    return { op: index, n, tier: from.tier, ...more };
  }

  #track(op: Op, promise: Promise<unknown>, check: (value: unknown) => void = () => {}): void {
    promise.then(
      (value) => {
        if (op.life.state === 'crashed') return;
        op.outcome = 'resolved';
        this.note(`${op.about} resolved`);
        this.#judgeResolved(op);
        check(value);
      },
      (error: unknown) => {
        if (op.life.state === 'crashed') return;
        this.note(`${op.about} failed: ${nameOf(error)}`);
        if (error instanceof EclipticError && isErrorCode(error.code)) {
          op.outcome = error;
          this.count(`failed ${error.code}${outcomeOf(error) ? ` ${outcomeOf(error)}` : ''}`);
        } else {
          op.outcome = 'broken';
          this.violation(`${op.about} failed with something that is not in the catalogue: ${nameOf(error)}`);
        }
      },
    );
  }

  // Messages to agents

  #onMessage(life: Life, role: Role, message: Message): void {
    this.#hear(life, role, message.payload as Note, message.from);
  }

  #onRequest(life: Life, role: Role, message: Message): unknown {
    const note = message.payload as Note;
    const op = this.#hear(life, role, note, message.from);
    if (message.thread !== undefined) this.#asked.set(message.thread, role.id);
    if (op?.kind === 'stream') return this.#source(life, op, note.delayMs ?? 0);
    if (note.fails) throw new Error('as it was asked to');
    if (!note.delayMs) return note.n;
    return this.#pause(life, note.delayMs).then(() => note.n);
  }

  async #onStream(life: Life, role: Role, stream: StreamReader, message: Message): Promise<void> {
    if (message.thread !== undefined) this.#asked.set(message.thread, role.id);
    const busy = this.#begins(life);
    let op: Op | undefined;
    let next = 0;
    try {
      for await (const chunk of stream) {
        const [index, n] = chunk as [number, number];
        op ??= this.#ops[index]!;
        if (op.kind !== 'send-stream') {
          this.violation(`${role.id} was handed the answer to ${op.about}, for which nobody waits any more`);
          return;
        }
        if (next === 0 && op.index === index) this.#hear(life, role, { op: index, n: op.n, tier: -1 as AgentTier }, '');
        if (op.index !== index || n !== next)
          this.violation(`${role.id} read ${index}/${n} of ${op.about}, not ${next}`);
        next++;
      }
      if (op && next !== op.chunks)
        this.violation(`${role.id} read ${next} of ${op.chunks} of ${op.about}, and its end`);
    } catch (error) {
      if (!(error instanceof EclipticError)) this.violation(`reading ${op?.about} failed: ${nameOf(error)}`);
      this.note(`${role.id} read ${next} of ${op?.about ?? 'a stream'}: ${nameOf(error)}`);
      // Valid reasons: the sender left, or its node was lost or restarted. A completed stream is not a reason.
      if (op?.outcome === 'resolved' && life.agents.get(role.id) === this.#agentOf(role)) {
        this.violation(`${op.about} was sent in full, but its reader got ${nameOf(error)}`);
      }
    } finally {
      this.#busy.delete(busy);
    }
  }

  #agentOf(role: Role): Agent | undefined {
    return role.place.life?.agents.get(role.id);
  }

  #onChannel(life: Life, role: Role, channel: A2AChannel): boolean | Promise<boolean> {
    const dice = this.#dice;
    const answer = dice.whole(0, 99);
    this.note(`${role.id} is asked for channel ${this.#channelName(channel)}`);
    if (answer < 10) return false;
    const from = this.#roleAt(channel.remoteAgentId);
    this.#keepChannel(life, role, from, channel);
    return answer < 80 ? true : this.#pause(life, dice.between(0, 6_000)).then(() => true);
  }

  #keepChannel(life: Life, role: Role, other: Role | undefined, channel: A2AChannel): void {
    const name = this.#channelName(channel);
    const listen = () => {
      channel.onMessage((envelope) => this.#hear(life, role, envelope.payload as Note, envelope.sender, name));
    };
    // A late listener gets the messages again.
    if (this.#dice.chance(0.1)) void this.#pause(life, this.#dice.between(0, 400)).then(listen);
    else listen();
    life.channels.push({ name, channel, life, from: role, to: other });
    let interrupted = false;
    channel.onStatus((status) => {
      this.note(`${life.name}: ${name} is ${status}`);
      if (status === 'reconnecting') {
        interrupted = true;
        this.count('channel interrupted');
      }
      if (status === 'open' && interrupted) this.count('channel resumed');
      if (status === 'closed' && interrupted) this.count('channel closed after an interruption');
    });
  }

  #channelName({ id }: A2AChannel): string {
    const name = this.#channelNames.get(id) ?? `c${this.#channelNames.size}`;
    this.#channelNames.set(id, name);
    return name;
  }

  /** Notes that a handler got something, and whether it may have. */
  #hear(life: Life, role: Role, note: Note, sender: string, channel?: string): Op | undefined {
    const op = this.#ops[note.op];
    if (!op) {
      this.violation(`${role.id} got what nobody sent: ${JSON.stringify(note)}`);
      return undefined;
    }
    this.note(`${life.name}: ${role.id} got ${op.about}`);
    this.count('heard');
    if (life.state !== 'up') this.violation(`${role.id} got ${op.about} after its process had ended`);
    if (!life.agents.has(role.id)) this.violation(`${role.id} got ${op.about} after it had left`);
    if (op.to && op.to !== role) this.violation(`${role.id} got ${op.about}`);
    if (op.heardBy.some((other) => other === role || op.kind !== 'broadcast')) {
      this.violation(`${role.id} got ${op.about} again`);
    }
    op.heardBy.push(role);
    // Of streams, the first chunk is noted; several begun at once bring theirs in any order.
    if (op.kind === 'send-stream') return op;
    const path = `${op.path} ⇒ ${role.id}`;
    const before = this.#heard.get(path) ?? 0;
    if (op.n <= before) this.violation(`${role.id} got ${op.about} after number ${before}`);
    this.#heard.set(path, op.n);
    this.#judgePolicy(life, role, op, note, sender, channel);
    return op;
  }

  #judgePolicy(life: Life, role: Role, op: Op, note: Note, sender: string, channel?: string): void {
    const card = life.node.registry.getById(sender);
    if (!card) {
      this.violation(`${role.id} got ${op.about} from ${this.#readable(sender)}, whom its node does not know`);
      return;
    }
    // A card and the messages after it travel in one line.
    if (channel === undefined && card.tier !== note.tier) {
      this.violation(`${role.id} got ${op.about} of tier ${note.tier}, but its node knows tier ${card.tier}`);
    }
    const why = this.#forbids(op.from, card.tier, role, role.tier);
    if (why) this.violation(`${role.id} got ${op.about}, which policy forbids: ${why}`);
  }

  /** Why an agent may not open a conversation with another; undefined when it may. */
  #forbids(from: Role, fromTier: AgentTier, to: Role, toTier: AgentTier): string | undefined {
    if (!this.#withinSandbox(from, to)) return `it is out of sandbox ${from.sandbox}`;
    return MAY_OPEN[fromTier].includes(toTier) ? undefined : `L${fromTier} to L${toTier}`;
  }

  #withinSandbox(from: Role, to: Role): boolean {
    if (from.sandbox === undefined || to === this.#hub) return true;
    return from.sandbox === to.sandbox && (from.sandbox === SHARED_SANDBOX || from.place === to.place);
  }

  async #read(op: Op, reader: StreamReader, leaveAt: number): Promise<void> {
    let next = 0;
    for await (const chunk of reader) {
      const [index, n] = chunk as [number, number];
      if (index !== op.index || n !== next) this.violation(`${op.about} brought ${index}/${n}, not ${next}`);
      if (++next > leaveAt) return;
    }
    if (next !== op.chunks) this.violation(`${op.about} ended after ${next} of ${op.chunks}`);
  }

  async *#source(life: Life, op: Op, delayMs: number): AsyncGenerator<[number, number]> {
    for (let n = 0; n < op.chunks; n++) {
      if (delayMs > 0) await this.#pause(life, delayMs);
      yield [op.index, n];
    }
  }

  // Trouble

  async #disturb(): Promise<void> {
    const dice = this.#dice;
    const up = this.#places.filter(({ life }) => life !== undefined);
    if (up.length === 0) return;
    const draw = this.#restless && dice.chance(0.8) ? dice.whole(25, 59) : dice.whole(0, 99);
    const place = dice.pick(up);
    if (draw < 25) this.#partition();
    else if (draw < 45) this.#breakLinks(place, dice.chance(0.5));
    else if (draw < 60) this.#crash(place, dice.chance(0.5));
    else if (draw < 67) await this.#stop(place, dice.chance(0.3) ? 2_000 : 0);
    else if (draw < 80) this.#comeAndGo(place.life!);
    else if (draw < 97) this.#updateCard(place.life!);
    else this.#changeWeather();
  }

  #partition(): void {
    const [one, other] = this.#dice.shuffled(this.#places) as [Place, Place];
    const pair = [one.key, other.key].sort().join();
    const ms = this.#dice.between(1_000, 20_000);
    this.note(`${one.name} and ${other.name} are cut apart for ${Math.round(ms)} ms`);
    this.count('partition');
    this.#cuts.set(pair, (this.#cuts.get(pair) ?? 0) + 1);
    this.#network.cut(one.key, other.key);
    this.#later(ms, () => {
      const left = this.#cuts.get(pair)! - 1;
      this.#cuts.set(pair, left);
      if (left > 0) return;
      this.note(`${one.name} and ${other.name} are joined again`);
      this.#network.heal(one.key, other.key);
    });
  }

  /** Its connections break, as when a router restarts; the process goes on. The other ends may not notice. */
  #breakLinks(place: Place, silently: boolean): void {
    this.note(`the links of ${place.name} break ${silently ? 'silently' : 'loudly'}`);
    this.count(silently ? 'links broke silently' : 'links broke loudly');
    this.#network.crash(place.key, silently);
  }

  /** The process ends in the middle of everything: from now on it does nothing. */
  #crash(place: Place, silently: boolean): void {
    const life = place.life!;
    this.note(`${life.name} crashes ${silently ? 'silently' : 'loudly'}`);
    this.count(silently ? 'silent crash' : 'loud crash');
    life.state = 'crashed';
    life.runtime.end();
    void life.discovery.current?.stop();
    this.#network.crash(place.key, silently);
    place.life = undefined;
    this.#restartLater(place);
  }

  async #stop(place: Place, drainMs: number): Promise<void> {
    const life = place.life!;
    this.note(`${life.name} is stopped`);
    this.count('stop');
    place.life = undefined;
    const stopping = life.node.stop({ drainMs });
    await this.#settled(stopping);
    life.state = 'stopped';
    life.agents.clear();
    this.note(`${life.name} has stopped`);
    this.#later(1_000, () => this.#judgeStopped(life));
    this.#restartLater(place);
  }

  #restartLater(place: Place): void {
    const soon = this.#dice.chance(this.#restless ? 0.95 : 0.4);
    const ms = soon ? this.#dice.between(0, 200) : this.#dice.between(200, 15_000);
    this.#later(ms, () => void this.#bringUp(place).catch((error) => this.violation(`no restart: ${nameOf(error)}`)));
  }

  #comeAndGo(life: Life): void {
    const role = this.#dice.pick(life.place.roles);
    if (!role.present) {
      this.note(`${role.id} joins`);
      this.#enter(life, role);
    } else {
      this.note(`${role.id} leaves`);
      role.present = false;
      const agent = life.agents.get(role.id)!;
      life.agents.delete(role.id);
      agent.leave();
    }
    this.count('agent came or went');
  }

  #updateCard(life: Life): void {
    const dice = this.#dice;
    const role = dice.pickMaybe(life.place.roles.filter(({ present }) => present));
    if (!role) return;
    role.description = `changed at ${this.#time()}`;
    if (dice.chance(0.3)) role.capabilities = role.capabilities.length === 0 ? ['work'] : [];
    if (dice.chance(0.2)) {
      role.tier = dice.pick([0, 1, 2, 3]);
      role.tierChangedAt = this.#runtime.now();
    }
    const { description, capabilities, tier } = role;
    this.note(`${role.id} updates its card: L${tier} ${capabilities.join()}`);
    this.count('card updated');
    life.agents.get(role.id)!.update({ description, capabilities, tier });
  }

  #changeWeather(): void {
    const before = this.#network.faults;
    this.note('the network is perfect for a while');
    this.#network.faults = { loss: 0, duplication: 0, latencyMs: [1, 2] };
    this.#later(this.#dice.between(1_000, 10_000), () => {
      this.#network.faults = before;
    });
  }

  #later(ms: number, task: () => void): void {
    const timer = this.#runtime.setTimer(() => {
      this.#plans.delete(timer);
      if (this.#chaos) task();
    }, ms);
    this.#plans.add(timer);
  }

  // The end

  /** Heals everything, and gives the mesh time to come to rest. */
  async #recover(): Promise<void> {
    this.#chaos = false;
    for (const timer of this.#plans) timer.cancel();
    this.#network.healAll();
    this.#network.faults = { loss: 0, duplication: 0, latencyMs: [1, 1] };
    this.note('everything is healed');
    for (const place of this.#places) if (!place.life) await this.#bringUp(place);
    await this.#rest('the chaos');
  }

  /** At the end, every pair of agents that policy allows can exchange messages. */
  async #probe(): Promise<void> {
    const probes: Op[] = [];
    for (const from of this.#places.flatMap(({ roles }) => roles)) {
      for (const to of this.#places.flatMap(({ roles }) => roles)) {
        if (from.place === to.place || !from.present || !to.present) continue;
        if (!this.#mayKnow(from.place, to.place, to.id) || !this.#mayKnow(to.place, from.place, from.id)) continue;
        if (this.#forbids(from, from.tier, to, to.tier) || !this.#withinSandbox(to, from)) continue;
        probes.push(this.#request(from.place.life!, from, to));
      }
    }
    await this.#rest('the probes');
    for (const { outcome, about } of probes) {
      if (outcome === 'resolved' || outcome === 'pending') continue;
      const code = outcome instanceof EclipticError ? outcome.code : 'nothing known';
      if (code !== 'HANDLER_FAILED' && code !== 'REQUEST_TIMEOUT') {
        this.violation(`${about} failed in a mesh without faults: ${nameOf(outcome)}`);
      }
    }
  }

  async #rest(what: string): Promise<void> {
    const atRest = () =>
      this.#unsettled().length === 0 && this.#stillBusy().length === 0 && this.#whatDiffers().length === 0;
    const began = this.#runtime.now();
    try {
      await this.#until('rest', atRest, SETTLE_MS);
      this.note(`at rest after ${what}`);
    } catch {
      for (const { about } of this.#unsettled()) this.violation(`${about} never settled`);
      for (const difference of this.#whatDiffers()) this.violation(`after ${SETTLE_MS} ms: ${difference}`);
      for (const { name } of this.#stillBusy()) this.violation(`a handler on ${name} never ends`);
    }
    this.count('seconds to rest', Math.round((this.#runtime.now() - began) / 1_000));
  }

  #unsettled(): Op[] {
    return this.#ops.filter(({ outcome, life }) => outcome === 'pending' && life.state !== 'crashed');
  }

  /** Differences between the knowledge of running nodes and the truth. */
  #whatDiffers(): string[] {
    const lives = this.#places.flatMap(({ life }) => life ?? []);
    return lives.flatMap((viewer) => lives.flatMap((other) => (viewer === other ? [] : this.#compare(viewer, other))));
  }

  #compare(viewer: Life, other: Life): string[] {
    const row = viewer.node.network.list().find(({ node }) => node === other.place.key);
    const differences: string[] = [];
    if (row?.state !== 'connected') differences.push(`${viewer.name} has ${other.name} as ${row?.state ?? 'unknown'}`);
    const seen = viewer.node.registry.getRemoteCards().filter(({ node }) => node === other.place.key);
    const told = other.node.registry.getLocalCards().filter(({ id }) => this.#mayKnow(viewer.place, other.place, id));
    const known = new Map(seen.map((card) => [card.id, essence(card)]));
    for (const card of told) {
      const found = known.get(card.id);
      known.delete(card.id);
      if (found === essence(card)) continue;
      differences.push(`${viewer.name} knows ${card.id} as ${found ?? 'nobody'}, not ${essence(card)}`);
    }
    for (const id of known.keys()) differences.push(`${viewer.name} knows ${id}, which it should not`);
    return differences;
  }

  /** Is a card announced to a place? One that is confined to a sandbox hears of what that sandbox may reach. */
  #mayKnow(viewer: Place, place: Place, id: string): boolean {
    const role = place.roles.find((other) => other.id === id)!;
    // A node does not announce cards that its certificate does not allow.
    if (place.grant.tiers?.includes(role.tier) === false) return false;
    return viewer.grant.sandboxes === undefined || role === this.#hub || role.sandbox === SHARED_SANDBOX;
  }

  /** At the moment it resolves, it must have been heard. */
  #judgeResolved(op: Op): void {
    const { kind, heardBy, about } = op;
    if (kind === 'send' || kind === 'request' || kind === 'channel' || kind === 'capability') {
      if (heardBy.length !== 1) this.violation(`${about} resolved, but was heard ${heardBy.length} times`);
    }
  }

  /** At the very end, failed messages arrived no more often than their errors allow. */
  #judgeOps(): void {
    for (const { kind, outcome, heardBy, about } of this.#ops) {
      if (!(outcome instanceof EclipticError)) continue;
      const { code } = outcome;
      if (code === 'DELIVERY_FAILED' && kind !== 'open-channel' && !outcomeOf(outcome)) {
        this.violation(`${about} failed without saying whether it may have arrived: ${nameOf(outcome)}`);
      }
      const mayBeHeard = outcomeOf(outcome) === 'unknown' || (MAYBE[kind]?.includes(code) ?? false);
      if (!mayBeHeard && heardBy.length > 0) this.violation(`${about} was heard, but failed: ${nameOf(outcome)}`);
    }
  }

  async #stopAll(): Promise<void> {
    for (const { life } of this.#places) {
      await this.#settled(life!.node.stop());
      life!.state = 'stopped';
    }
    await this.#runtime.advance(1_000);
    for (const { life } of this.#places) this.#judgeStopped(life!);
    // Handlers of processes that crashed still wait; for nothing, but on the common clock.
    await this.#runtime.advance(10_000);
    for (const { about } of this.#unsettled()) this.violation(`${about} never settled`);
    if (this.#runtime.pending > 0) this.violation(`${this.#runtime.pending} tasks are left over`);
    this.note('everything has stopped');
  }

  #judgeStopped({ name, runtime }: Life): void {
    if (runtime.pending > 0) this.violation(`${name} has stopped, but has ${runtime.pending} timers`);
  }

  // Events

  #onEvent(life: Life, event: A2ALogEvent, eager: boolean): void {
    if (event.type === 'security') this.#judgeSecurity(life, event);
    if (event.type !== 'peer-status') return;
    const place = this.#places.find(({ key }) => key === event.node);
    this.note(`${life.name} has ${place?.name ?? event.node} as ${event.peerStatus} ${event.reason ?? ''}`);
    this.count(`peer ${event.peerStatus}`);
    if (event.peerStatus === 'connected' && eager && this.#chaos && life.state === 'up') this.#greet(life, place!);
  }

  /** A subscriber that learns of a connected node can send to its agents at once. */
  #greet(life: Life, place: Place): void {
    const known = place.roles.filter(({ id, place: { key } }) => life.node.registry.getById(`${id}@${key}`));
    const to = this.#dice.pickMaybe(known);
    const from = this.#dice.pickMaybe(life.place.roles.filter(({ id }) => life.agents.has(id)));
    if (to && from) this.#send(life, from, to, ', on sight');
  }

  /** All nodes are honest, so every accusation is wrong. Only an agent's own node may refuse its messages. */
  #judgeSecurity(life: Life, event: A2ALogEvent): void {
    const { code, reason, sender, recipient, messageType } = event;
    const about = `${life.name} reports ${code} about ${this.#readable(sender ?? event.node ?? '?')} → ${this.#readable(recipient ?? '?')}, ${messageType}: ${this.#readable(reason ?? '')}`;
    const from = sender === undefined ? undefined : this.#roleAt(sender, life.place);
    const to = recipient === undefined ? undefined : this.#roleAt(recipient, life.place);
    if (!from || !to || !POLICY_CODES.has(code ?? '')) {
      const untold = from && to && !this.#mayKnow(to.place, from.place, from.id);
      this.violation(`a false accusation: ${about}${untold ? ' (of whom it is not told)' : ''}`);
      return;
    }
    this.count(`refused ${code}`);
    // Another node let a forbidden message through, unless a changed tier crossed with the message.
    const news = Math.max(from.tierChangedAt, to.tierChangedAt);
    if (code !== 'SANDBOX_VIOLATION' && this.#runtime.now() - news < NEWS_MS) {
      this.count('refused for news that may have crossed');
      return;
    }
    if (from.place !== life.place) {
      this.violation(`a false accusation: ${about}`);
      return;
    }
    // To a sandboxed sender, an agent that its node does not know at the moment looks like one that is hidden.
    if (code === 'SANDBOX_VIOLATION' && from.sandbox !== undefined && !life.node.registry.getById(recipient!)) {
      this.count('refused as if hidden');
      return;
    }
    const answers = messageType === 'response' || this.#asked.get(event.correlationId ?? '') === from.id;
    const wayBack = this.#withinSandbox(to, from) ? undefined : 'no way back';
    const why = this.#forbids(from, from.tier, to, to.tier) ?? wayBack;
    if (answers || (!why && code !== 'ESCALATION_REQUIRED')) this.violation(`a wrong refusal: ${about}`);
  }

  #roleAt(address: string, here?: Place): Role | undefined {
    const [id, key] = address.split('@');
    const place = key === undefined ? here : this.#places.find((other) => other.key === key);
    const places = place ? [place] : [];
    const found = [...places, ...this.#places].flatMap(({ roles }) => roles).find((role) => role.id === id);
    return found;
  }

  #readable(text: string): string {
    return this.#places.reduce((left, { key, name }) => left.replaceAll(key, name), text);
  }

  // Time

  count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by);
  }

  #begins(life: Life): symbol {
    const busy = Symbol(life.name);
    this.#busy.set(busy, life);
    return busy;
  }

  #stillBusy(): Life[] {
    return [...this.#busy.values()].filter(({ state }) => state !== 'crashed');
  }

  /** Waits inside a process; for ever, once that has crashed. */
  #pause(life: Life, ms: number): Promise<void> {
    const busy = this.#begins(life);
    return new Promise((resolve) => {
      this.#runtime.setTimer(() => {
        this.#busy.delete(busy);
        if (life.state !== 'crashed') resolve();
      }, ms);
    });
  }

  async #settled<T>(promise: Promise<T>): Promise<T> {
    let over = false;
    const end = () => {
      over = true;
    };
    promise.then(end, end);
    await this.#until('a promise settles', () => over, 300_000);
    return promise;
  }

  async #until(what: string, condition: () => boolean, limitMs: number): Promise<void> {
    for (let passed = 0; passed < limitMs; passed += 100) {
      if (condition()) return;
      await this.#runtime.advance(100);
    }
    if (!condition()) throw new Error(`not within ${limitMs} ms: ${what}; ${this.#whatDiffers().join('; ')}`);
  }

  #time(): string {
    return ((this.#runtime.now() - this.#start) / 1_000).toFixed(3);
  }
}

/** Codes of errors that say nothing about whether the other side heard the message. */
const MAYBE: Partial<Record<OpKind, readonly ErrorCode[]>> = {
  request: ['REQUEST_TIMEOUT', 'HANDLER_FAILED', 'NODE_STOPPED', 'CANCELLED'],
  stream: ['REQUEST_TIMEOUT', 'HANDLER_FAILED', 'NODE_STOPPED', 'CANCELLED', 'DELIVERY_FAILED'],
  // A stream has many messages: what became of one says nothing about those before.
  'send-stream': [
    'REQUEST_TIMEOUT',
    'NODE_STOPPED',
    'CANCELLED',
    'DELIVERY_FAILED',
    'AGENT_UNAVAILABLE',
    'AGENT_NOT_FOUND',
    'TIER_VIOLATION',
  ],
};

/** The faults that a scenario applies to a network. */
interface UnkindNetwork {
  faults: Faults;
  readonly connect: (callerKey: string, calledKey: string) => [Link, Link] | undefined;
  cut(one: string, other: string): void;
  heal(one: string, other: string): void;
  healAll(): void;
  crash(key: string, silently: boolean): void;
}

/** One end of a steady link, and the frames in flight from there. */
interface Way {
  readonly from: string;
  readonly to: string;
  readonly end: MemoryLink;
  readonly parcels: { readonly parcel: Parcel; readonly due: number }[];
}

/** Links as TCP offers them: everything arrives once and in order, late while the network is cut, until they break. */
class SteadyNetwork implements UnkindNetwork {
  readonly #runtime: SimulatedRuntime;
  readonly #ways = new Map<MemoryLink, Way>();
  readonly #cuts = new Set<string>();
  faults: Faults = { latencyMs: [1, 1], loss: 0, duplication: 0 };

  constructor(runtime: SimulatedRuntime) {
    this.#runtime = runtime;
  }

  readonly connect = (callerKey: string, calledKey: string): [Link, Link] | undefined => {
    if (this.#isCut(callerKey, calledKey)) return undefined;
    const carry = (from: MemoryLink, parcel: Parcel) => this.#carry(from, parcel);
    const handshake = this.#runtime.bytes(32);
    const [caller, called] = MemoryLink.pair(callerKey, calledKey, {
      kind: 'memory',
      reliable: true,
      handshake,
      carry,
    });
    this.#ways.set(caller, { from: callerKey, to: calledKey, end: called, parcels: [] });
    this.#ways.set(called, { from: calledKey, to: callerKey, end: caller, parcels: [] });
    return [caller, called];
  };

  cut(one: string, other: string): void {
    this.#cuts.add([one, other].sort().join());
  }

  heal(one: string, other: string): void {
    this.#cuts.delete([one, other].sort().join());
    for (const way of this.#ways.values()) this.#deliver(way);
  }

  healAll(): void {
    this.#cuts.clear();
    for (const way of this.#ways.values()) this.#deliver(way);
  }

  /** Frames in flight still arrive. */
  crash(key: string, silently: boolean): void {
    for (const [link, { from, end }] of this.#ways) {
      if (from !== key) continue;
      link.sever();
      if (!silently) end.sever();
    }
  }

  #carry(from: MemoryLink, parcel: Parcel): void {
    const way = this.#ways.get(from)!;
    const [least, most] = this.faults.latencyMs;
    const soonest = this.#runtime.now() + least + (most - least) * this.#runtime.random();
    const due = Math.max(soonest, way.parcels.at(-1)?.due ?? 0);
    way.parcels.push({ parcel, due });
    this.#runtime.setTimer(() => this.#deliver(way), due - this.#runtime.now());
  }

  #deliver(way: Way): void {
    if (this.#isCut(way.from, way.to)) return;
    while (way.parcels.length > 0 && way.parcels[0]!.due <= this.#runtime.now()) {
      const { parcel } = way.parcels.shift()!;
      parcel.left();
      parcel.arrive();
    }
  }

  #isCut(one: string, other: string): boolean {
    return this.#cuts.has([one, other].sort().join());
  }
}

/** One process's view of the common clock: once the process has ended, nothing of it runs any more. */
class ProcessRuntime implements Runtime {
  readonly logger: Logger;
  readonly #inner: SimulatedRuntime;
  readonly #skewMs: number;
  readonly #timers = new Set<Timer>();
  #ended = false;

  constructor(inner: SimulatedRuntime, skewMs: number, onError: (message: string, error: unknown) => void) {
    this.#inner = inner;
    this.#skewMs = skewMs;
    this.logger = { debug() {}, info() {}, warn() {}, error: ({ err }, message) => onError(message, err) };
  }

  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#inner.now() + this.#skewMs;
  }

  stopwatch(): number {
    return this.#inner.stopwatch();
  }

  setTimer(task: () => void, ms: number): Timer {
    if (this.#ended) return { cancel() {} };
    const inner = this.#inner.setTimer(() => {
      this.#timers.delete(timer);
      task();
    }, ms);
    const timer = {
      cancel: () => {
        this.#timers.delete(timer);
        inner.cancel();
      },
    };
    this.#timers.add(timer);
    return timer;
  }

  defer(task: () => void): void {
    this.setTimer(task, 0);
  }

  hold(): Timer {
    return this.#inner.hold();
  }

  id(): string {
    return this.#inner.id();
  }

  random(): number {
    return this.#inner.random();
  }

  bytes(count: number): Uint8Array {
    return this.#inner.bytes(count);
  }

  /** The process is gone. */
  end(): void {
    this.#ended = true;
    for (const timer of [...this.#timers]) timer.cancel();
  }
}

/** The scenario's own randomness: a change in what the fabric draws leaves the scenario's decisions as they are. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) ^ 0x5bf03635;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  between(least: number, most: number): number {
    return least + (most - least) * this.next();
  }

  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.next() * from.length)]!;
  }

  pickMaybe<T>(from: readonly T[]): T | undefined {
    return from.length === 0 ? undefined : this.pick(from);
  }

  shuffled<T>(from: readonly T[]): T[] {
    return from
      .map((item) => ({ item, at: this.next() }))
      .sort((a, b) => a.at - b.at)
      .map(({ item }) => item);
  }
}

function essence({ id, tier, sandboxId, revision, description, capabilities }: AgentCard): string {
  const offers = capabilities.map((capability) => capability.id);
  return JSON.stringify([id, tier, sandboxId ?? null, revision, description, offers]);
}

function outcomeOf(error: EclipticError): string | undefined {
  const { outcome } = error.details;
  return outcome === 'unknown' || outcome === 'not-delivered' ? outcome : undefined;
}

function nameOf(error: unknown): string {
  if (!(error instanceof EclipticError)) return error instanceof Error ? String(error.stack) : String(error);
  const outcome = outcomeOf(error);
  return `${error.code}${outcome ? ` (${outcome})` : ''}`;
}
