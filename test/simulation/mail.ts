import type { Agent } from '../../src/agent/agent.js';
import type { Message } from '../../src/agent/message.js';
import type { Receipt } from '../../src/mail/receipt.js';
import { inbox, outbox, receipts } from '../../src/mail/tables.js';
import { EclipticError, isErrorCode } from '../../src/runtime/errors.js';
import { cursors } from '../../src/store/common-tables.js';
import { type Capability, noteOf, pickPair } from './capability.js';
import type { Dice } from './dice.js';
import {
  type Fabric,
  isWithinSandbox,
  type Life,
  mayOpen,
  NEVER,
  nameOf,
  ON_PURPOSE,
  type Role,
  type UpLife,
} from './fabric.js';

type Kind = 'note' | 'request' | 'forwarded';

/** A durable message, and its outcome. */
interface Op {
  readonly index: number;
  readonly kind: Kind;
  readonly from: Role;
  readonly to: Role;
  readonly about: string;
  readonly ttlMs: number | undefined;
  /** How often its handler throws in one process before it does its work. */
  readonly failures: number;
  readonly delayMs: number;
  /** Does the handler end it by a commit, or by returning? */
  readonly commits: boolean;
  /** The message that the handler sends with its commit. */
  readonly child: Op | undefined;
  /** `pending` for ever, if the sender's process crashed before it heard. */
  outcome: 'pending' | 'stored' | 'failed';
  messageId: string | undefined;
  /** In which processes its handler was called, and how often. */
  readonly runs: Map<Life, number>;
  /** The number of its last sending along its path. */
  sentAs: number;
  /** Has a handler come to its end? */
  handled: boolean;
}

/** Why a node may refuse to store a message. */
const REFUSALS = ['NODE_STOPPED', 'STORE_FAILED', 'QUEUE_FULL', 'AGENT_NOT_FOUND', 'NODE_REMOVED'];

/** Durable messages: stored, delivered at least once with exactly one effect, and told to both sides. */
export class DurableMail implements Capability {
  readonly name = 'mail';
  readonly weight = 22;
  readonly #fabric: Fabric;
  readonly #ops: Op[] = [];
  readonly #sent = new Map<string, number>();
  readonly #firsts = new Map<string, Op[]>();
  readonly #answers = new Map<number, number>();

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  act(dice: Dice): void {
    const burst = dice.chance(0.1) ? dice.whole(2, 8) : 1;
    const pair = pickPair(this.#fabric, dice);
    if (!pair || !mayOpen(pair.from, pair.to) || !isWithinSandbox(pair.to, pair.from)) return;
    for (let at = 0; at < burst; at++) this.#send(pair.life, pair.from, pair.to, dice);
  }

  #send(life: UpLife, from: Role, to: Role, dice: Dice): void {
    const fabric = this.#fabric;
    const kind = dice.chance(0.1) ? 'request' : 'note';
    const onward = fabric.roles.filter(
      (role) => role !== to && mayOpen(to, role) && role.station.removedAt === undefined,
    );
    const next = kind === 'note' && dice.chance(0.2) ? dice.pickMaybe(onward) : undefined;
    const child = next && this.#draw('forwarded', to, next, dice);
    const op = this.#draw(kind, from, to, dice, child);
    fabric.note(`${op.about} is sent${op.ttlMs === undefined ? '' : `, to live ${op.ttlMs} ms`}`);
    fabric.count(`durable ${kind}`);
    this.#sends(op);
    const thread = kind === 'request' ? { type: 'request' as const, thread: `mail-${op.index}` } : {};
    const options = { durable: true, ttlMs: op.ttlMs, ...thread };
    const agent = life.agents.get(from.id)!;
    agent.send(fabric.address(to, life.station), { cap: this.name, op: op.index }, options).then(
      (result) => {
        if (life.state === 'crashed') return;
        op.outcome = 'stored';
        op.messageId = result.messageId;
        fabric.note(`${op.about} is stored`);
        fabric.check('durable message', result.stored === true, () => `${op.about} resolved without being stored`);
      },
      (error: unknown) => {
        if (life.state === 'crashed') return;
        op.outcome = 'failed';
        fabric.note(`${op.about} failed: ${nameOf(error)}`);
        const code = error instanceof EclipticError && isErrorCode(error.code) ? error.code : nameOf(error);
        fabric.check('durable message', REFUSALS.includes(code), () => `${op.about} failed: ${nameOf(error)}`);
      },
    );
  }

  #draw(kind: Kind, from: Role, to: Role, dice: Dice, child?: Op): Op {
    const index = this.#ops.length;
    const op: Op = {
      index,
      kind,
      from,
      to,
      about: `mail ${index} ${from.id}→${to.id} (${kind})`,
      ttlMs: kind === 'note' && dice.chance(0.15) ? Math.round(dice.between(200, 20_000)) : undefined,
      failures: kind === 'request' || dice.chance(0.85) ? 0 : dice.whole(1, 2),
      delayMs: dice.chance(0.5) ? 0 : dice.between(0, 1_500),
      commits: child !== undefined || (kind !== 'request' && dice.chance(0.7)),
      child,
      outcome: 'pending',
      messageId: undefined,
      runs: new Map(),
      sentAs: -1,
      handled: false,
    };
    this.#ops.push(op);
    return op;
  }

  /** Notes when a message gets its place among those of its path. */
  #sends(op: Op): void {
    const path = pathOf(op);
    op.sentAs = this.#sent.get(path) ?? 0;
    this.#sent.set(path, op.sentAs + 1);
  }

  onMessage(message: Message, role: Role, life: UpLife): unknown {
    if (message.type === 'response') return this.#onAnswer(message, role, life);
    return this.#handle(message, role, life).then(() => undefined);
  }

  onRequest(message: Message, role: Role, life: UpLife): unknown {
    return this.#handle(message, role, life);
  }

  async #handle(message: Message, role: Role, life: UpLife): Promise<unknown> {
    const fabric = this.#fabric;
    const op = this.#ops[noteOf(message.payload)!.op]!;
    if (life.state === 'crashed') return NEVER;
    const agent = life.agents.get(role.id)!;
    const run = (op.runs.get(life) ?? 0) + 1;
    fabric.note(`${life.name} handles ${op.about}${message.redelivered ? ' again' : ''}`);
    fabric.count('handled');
    const check = (holds: boolean, text: string) => fabric.check('durable message', holds, () => `${op.about} ${text}`);
    check(op.to === role, `was handed to ${role.id}`);
    check(message.from === fabric.address(op.from, role.station), `came from ${message.from}`);
    check(op.runs.size === 0 || message.redelivered, 'came again as if for the first time');
    check(op.messageId === undefined || op.messageId === message.envelope.id, 'came under another id');
    op.messageId = message.envelope.id;
    if (op.runs.size === 0) this.#firstRun(op);
    op.runs.set(life, run);
    if (op.delayMs > 0) await life.runtime.pause(op.delayMs);
    if (run <= op.failures) throw new Error(ON_PURPOSE);
    op.handled = true;
    if (!op.commits) return { cap: this.name, op: op.index };
    await this.#commit(message, op, agent, life);
    return undefined;
  }

  async #commit(message: Message, op: Op, agent: Agent, life: UpLife): Promise<void> {
    const done = ((await agent.kept<number[]>(op.from.id)) ?? []).concat(op.index);
    // A removed node is nobody's recipient any more.
    const child = op.child?.to.station.removedAt === undefined ? op.child : undefined;
    if (child) this.#sends(child);
    const to = child && this.#fabric.address(child.to, life.station);
    const send = to === undefined ? [] : [{ to, payload: { cap: this.name, op: child!.index } }];
    await message.commit({ keep: { [op.from.id]: done }, send });
    if ((life.state as Life['state']) === 'crashed') return NEVER;
    this.#fabric.note(`${life.name} has committed ${op.about}`);
    this.#fabric.count('committed');
  }

  #firstRun(op: Op): void {
    const path = pathOf(op);
    const firsts = this.#firsts.get(path) ?? [];
    this.#firsts.set(path, firsts);
    const before = firsts.at(-1);
    const inOrder = !before || before.sentAs < op.sentAs;
    this.#fabric.check('durable message', inOrder, () => `${op.about} was handled after ${before!.about}`);
    firsts.push(op);
  }

  #onAnswer(message: Message, role: Role, life: UpLife): void {
    if (life.state === 'crashed') return;
    const { op: index } = noteOf(message.payload)!;
    const op = this.#ops[index];
    this.#fabric.note(`${life.name} got the answer to ${op?.about}`);
    const fits = op?.from === role && message.thread === `mail-${index}`;
    this.#fabric.check('durable message', fits, () => `${role.id} got an answer in ${message.thread}: ${index}`);
    this.#answers.set(index, (this.#answers.get(index) ?? 0) + 1);
  }

  onEvent(event: Parameters<NonNullable<Capability['onEvent']>>[0]): void {
    if (event.type !== 'receipt' || event.receiptState !== 'read') return;
    const op = this.#ops.find(({ messageId }) => messageId === event.envelopeId);
    if (!op) return;
    this.#fabric.check('receipt', op.handled, () => `${op.about} is shown as read, and its handler has not ended`);
  }

  async left(): Promise<string[]> {
    const left: string[] = [];
    for (const life of this.#members) {
      for (const { id } of await this.#fabric.rows(life, outbox)) left.push(`${life.name} has ${this.#of(id)} to send`);
      for (const { id, recipient } of await this.#fabric.rows(life, inbox)) {
        // Mailboxes of other agents wait until they are fetched.
        if (life.agents.has(recipient)) left.push(`${life.name} has ${this.#of(id)} to handle`);
      }
      const known = new Map((await this.#fabric.rows(life, cursors)).map(({ name, value }) => [name, value]));
      for (const { id, node, news } of await this.#fabric.rows(life, receipts)) {
        if (news !== null && news > (known.get(`heard ${node}`) ?? 0) && !this.#isRemoved(node))
          left.push(`${life.name} has yet to tell of ${this.#of(id)}`);
      }
    }
    return left;
  }

  get #members(): UpLife[] {
    return this.#fabric.up.filter(({ station }) => station.removedAt === undefined);
  }

  #isRemoved(key: string): boolean {
    return this.#fabric.stations.find((station) => station.key === key)?.removedAt !== undefined;
  }

  async judge(): Promise<void> {
    const ends = await this.#judgeReceipts();
    const effects = await this.#judgeEffects();
    for (const op of this.#ops) {
      // What a removed node sent or got, nobody promises any more.
      if (op.from.station.removedAt !== undefined || op.to.station.removedAt !== undefined) continue;
      this.#judgeOp(op, op.messageId === undefined ? undefined : ends.get(op.messageId), effects);
    }
  }

  /** Whoever knows of a message knows how it ended, and both sides of it know the same. */
  async #judgeReceipts(): Promise<Map<string, string>> {
    const stories = new Map<string, Map<Life, Receipt>>();
    const ends = new Map<string, string>();
    for (const life of this.#members) {
      const rows = await this.#fabric.rows(life, receipts);
      for (const id of new Set(rows.filter(({ node }) => !this.#isRemoved(node)).map((row) => row.id))) {
        const { state, over, story } = await this.#fabric.settled(life.node.mail!.receipt(id));
        this.#fabric.check('receipt', over, () => `${life.name} has ${this.#of(id)} as ${state}, at the end`);
        const sides = stories.get(id) ?? new Map<Life, Receipt>();
        stories.set(id, sides.set(life, story));
        ends.set(id, state);
        this.#fabric.count(`mail ended ${state}`);
      }
    }
    for (const [id, sides] of stories) {
      const told = [...sides].map(([{ name }, story]) => [name, tell(story)] as const);
      const alike = told.every(([, text]) => text === told[0]![1]);
      this.#fabric.check(
        'receipt',
        alike,
        () => `${this.#of(id)} is ${told.map((side) => side.join(': ')).join('; ')}`,
      );
    }
    return ends;
  }

  /** Each committed message was committed once, in sending order. */
  async #judgeEffects(): Promise<Set<Op>> {
    const effects = new Set<Op>();
    for (const life of this.#members) {
      for (const role of life.station.roles) {
        const agent = life.agents.get(role.id)!;
        for (const from of this.#fabric.roles) {
          const kept = (await this.#fabric.settled(agent.kept<number[]>(from.id))) ?? [];
          const ops = kept.map((index) => this.#ops[index]!);
          for (const [at, op] of ops.entries()) {
            this.#fabric.check('durable message', ops.indexOf(op) === at, () => `${op.about} took effect twice`);
            const before = ops[at - 1];
            const inOrder = !before || before.sentAs < op.sentAs;
            this.#fabric.check('durable message', inOrder, () => `${op.about} took effect after ${before!.about}`);
            effects.add(op);
          }
        }
      }
    }
    return effects;
  }

  #judgeOp(op: Op, end: string | undefined, effects: ReadonlySet<Op>): void {
    const { outcome, about, runs, ttlMs, kind, commits, child } = op;
    const done = commits ? effects.has(op) : runs.size > 0;
    const check = (holds: boolean, text: string) =>
      this.#fabric.check('durable message', holds, () => `${about} ${text}`);
    check(outcome !== 'failed' || runs.size === 0, 'was refused, and handled nevertheless');
    if (end === undefined) {
      check(outcome !== 'stored', 'was acknowledged, and no node knows of it');
      check(runs.size === 0, 'was handled, and no node knows of it');
      return;
    }
    if (end === 'expired') {
      check(ttlMs !== undefined, 'expired');
      check(!commits || !done, 'expired, but took effect');
      return;
    }
    check(end === (kind === 'request' ? 'replied' : 'done'), `ended as ${end}`);
    check(done, `is ${end}, but was not done`);
    if (kind === 'request') check(this.#answers.has(op.index), 'was never answered');
    const isChildLost =
      child && child.to.station.removedAt === undefined && !effects.has(child) && child.runs.size === 0;
    check(!isChildLost, `was done, but not ${child?.about}`);
  }

  #of(id: string): string {
    return this.#ops.find((op) => op.messageId === id)?.about ?? `message ${id}`;
  }
}

/** Only the sender's side knows of a broker. */
function tell(story: Receipt): string {
  return story
    .filter(({ state }) => state !== 'relayed')
    .map(({ state, at, reason }) => `${state} ${at} ${reason ?? ''}`)
    .join(', ');
}

function pathOf({ from, to }: Op): string {
  return `${from.id}→${to.id}`;
}
