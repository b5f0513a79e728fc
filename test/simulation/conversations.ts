import type { Agent } from '../../src/agent/agent.js';
import type { Message } from '../../src/agent/message.js';
import type { StreamReader } from '../../src/agent/streams.js';
import type { A2AChannel } from '../../src/mesh/channel.js';
import { EclipticError, isErrorCode } from '../../src/runtime/errors.js';
import { type Capability, noteOf, pickPair } from './capability.js';
import type { Dice } from './dice.js';
import { type Fabric, isWithinSandbox, mayOpen, nameOf, type Role, type UpLife } from './fabric.js';

/** One message on a channel, or one stream. */
interface Op {
  readonly index: number;
  readonly life: UpLife;
  readonly about: string;
  readonly chunks: number;
  readonly delayMs: number;
  outcome: 'pending' | 'resolved' | 'failed';
  heard: number;
}

interface Open {
  readonly channel: A2AChannel;
  readonly life: UpLife;
  readonly name: string;
}

/** Channels and streams between agents: in order, without gaps, or with an error. */
export class Conversations implements Capability {
  readonly name = 'conversations';
  readonly weight = 12;
  readonly #fabric: Fabric;
  readonly #ops: Op[] = [];
  readonly #open: Open[] = [];
  /** The last message that was heard on each channel at each end. */
  readonly #last = new Map<string, number>();

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
    fabric.orphans = () =>
      this.#ops.filter(({ about, life }) => about.startsWith('stream') && life.state !== 'up').length;
  }

  enter(agent: Agent, role: Role, life: UpLife): void {
    agent.onChannel((channel) => {
      this.#keep(channel, role, life);
      return true;
    });
  }

  act(dice: Dice): void {
    const live = this.#open.filter(({ channel, life }) => life.state === 'up' && channel.status !== 'closed');
    const draw = dice.next();
    const one = dice.pickMaybe(live);
    if (one && draw < 0.5) {
      const burst = dice.chance(0.3) ? dice.whole(2, 5) : 1;
      for (let at = 0; at < burst; at++) this.#send(one);
      if (dice.chance(0.05)) void one.channel.close();
      return;
    }
    const pair = pickPair(this.#fabric, dice);
    if (!pair || !mayOpen(pair.from, pair.to) || !isWithinSandbox(pair.to, pair.from)) return;
    if (draw < 0.75 && live.length < 12) this.#openChannel(pair);
    else this.#stream(pair, dice);
  }

  #openChannel({ from, to, life }: { from: Role; to: Role; life: UpLife }): void {
    const op = this.#begin(life, `channel ${from.id}→${to.id}`, 0, 0);
    const opened = life.agents.get(from.id)!.openChannel(this.#fabric.address(to, life.station));
    this.#track(op, opened, (channel) => this.#keep(channel as A2AChannel, from, life));
  }

  #keep(channel: A2AChannel, role: Role, life: UpLife): void {
    const name = `${channel.id} at ${role.id}`;
    channel.onMessage(({ payload }) => {
      if (life.state === 'crashed') return;
      const op = this.#ops[noteOf(payload)?.op ?? -1];
      if (!op) return;
      op.heard++;
      this.#fabric.note(`${life.name}: ${role.id} got ${op.about}`);
      this.#fabric.check('channel to another node', op.heard === 1, () => `${role.id} got ${op.about} again`);
      const before = this.#last.get(name) ?? -1;
      this.#fabric.check('channel to another node', op.index > before, () => `${op.about} came after ${before}`);
      this.#last.set(name, op.index);
    });
    this.#open.push({ channel, life, name });
  }

  #send({ channel, life, name }: Open): void {
    const op = this.#begin(life, `message on ${name}`, 0, 0);
    const envelope = life.node.envelopes.create({
      sender: channel.localAgentId,
      recipient: channel.remoteAgentId,
      type: 'notification',
      payload: { cap: this.name, op: op.index },
    });
    this.#track(op, channel.send(envelope), () => {
      this.#fabric.check(
        'channel to another node',
        op.heard === 1,
        () => `${op.about} resolved, heard ${op.heard} times`,
      );
    });
  }

  #stream({ from, to, life }: { from: Role; to: Role; life: UpLife }, dice: Dice): void {
    const op = this.#begin(life, `stream ${from.id}→${to.id}`, dice.whole(0, 12), dice.pick([0, 100, 1_000]));
    const leaveAt = dice.chance(0.2) ? dice.whole(0, op.chunks) : op.chunks + 1;
    const payload = { cap: this.name, op: op.index };
    const address = this.#fabric.address(to, life.station);
    const reader = life.agents.get(from.id)!.stream(address, payload, { timeoutMs: 10_000 });
    this.#track(op, this.#read(op, reader, leaveAt));
  }

  async #read(op: Op, reader: StreamReader, leaveAt: number): Promise<void> {
    let next = 0;
    for await (const chunk of reader) {
      const [index, n] = chunk as [number, number];
      const right = index === op.index && n === next;
      this.#fabric.check('stream', right, () => `${op.about} brought ${index}/${n}, not ${next}`);
      if (++next > leaveAt) return;
    }
    this.#fabric.check('stream', next === op.chunks, () => `${op.about} ended after ${next} of ${op.chunks}`);
  }

  onRequest(message: Message, _role: Role, life: UpLife): unknown {
    const op = this.#ops[noteOf(message.payload)!.op]!;
    return this.#source(op, life);
  }

  async *#source({ index, chunks, delayMs }: Op, life: UpLife): AsyncGenerator<[number, number]> {
    for (let n = 0; n < chunks; n++) {
      if (delayMs > 0) await life.runtime.pause(delayMs);
      yield [index, n];
    }
  }

  #begin(life: UpLife, what: string, chunks: number, delayMs: number): Op {
    const index = this.#ops.length;
    const op: Op = { index, life, about: `${what} (${index})`, chunks, delayMs, outcome: 'pending', heard: 0 };
    this.#ops.push(op);
    this.#fabric.note(op.about);
    this.#fabric.count(what.split(' ')[0]!);
    return op;
  }

  #track(op: Op, promise: Promise<unknown>, check: (value: unknown) => void = () => {}): void {
    promise.then(
      (value) => {
        if (op.life.state === 'crashed') return;
        op.outcome = 'resolved';
        check(value);
      },
      (error: unknown) => {
        if (op.life.state === 'crashed') return;
        op.outcome = 'failed';
        this.#fabric.note(`${op.about} failed: ${nameOf(error)}`);
        const typed = error instanceof EclipticError && isErrorCode(error.code);
        this.#fabric.check('stream', typed, () => `${op.about} failed with ${nameOf(error)}`);
      },
    );
  }

  left(): string[] {
    return this.#ops
      .filter(({ outcome, life }) => outcome === 'pending' && life.state !== 'crashed')
      .map(({ about }) => `${about} is not settled`);
  }
}
