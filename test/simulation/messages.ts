import type { Message } from '../../src/agent/message.js';
import type { A2ALogEvent, AgentCard } from '../../src/mesh/schemas.js';
import { EclipticError, isErrorCode } from '../../src/runtime/errors.js';
import { type Capability, noteOf, pickPair } from './capability.js';
import type { Subject } from './contract.js';
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

type Kind = 'send' | 'request' | 'broadcast';

/** A message that is not durable, and its outcome. */
interface Op {
  readonly index: number;
  readonly kind: Kind;
  readonly life: UpLife;
  readonly from: Role;
  /** Undefined where all get it. */
  readonly to: Role | undefined;
  readonly about: string;
  readonly delayMs: number;
  readonly fails: boolean;
  /** Does policy allow it, as the oracle sees it? */
  readonly allowed: boolean;
  outcome: 'pending' | 'resolved' | EclipticError;
  /** The agents and processes that heard it. */
  readonly heardBy: { readonly role: Role; readonly life: UpLife }[];
  securityEvents: number;
}

/** Failures of a request that say nothing about whether it was heard. */
const MAYBE: readonly string[] = ['REQUEST_TIMEOUT', 'HANDLER_FAILED', 'NODE_STOPPED', 'CANCELLED'];

/** Messages and requests that live no longer than their processes, within a node and between nodes. */
export class Messages implements Capability {
  readonly name = 'messages';
  readonly weight = 30;
  readonly #fabric: Fabric;
  readonly #ops: Op[] = [];
  /** The last message that was heard along each path. */
  readonly #heard = new Map<string, number>();

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  act(dice: Dice): void {
    const pair = pickPair(this.#fabric, dice);
    if (!pair) return;
    const { from, to, life } = pair;
    const draw = dice.next();
    const burst = dice.chance(0.1) ? dice.whole(2, 6) : 1;
    for (let at = 0; at < burst; at++) {
      if (draw < 0.04) this.#broadcast(life, from);
      else if (draw < 0.4) this.#request(life, from, to, dice);
      else this.#send(life, from, to, dice);
    }
  }

  #send(life: UpLife, from: Role, to: Role, dice: Dice): void {
    const op = this.#begin('send', life, from, to, dice);
    this.#track(op, life.agents.get(from.id)!.send(this.#fabric.address(to, life.station), this.#payload(op)));
  }

  #request(life: UpLife, from: Role, to: Role, dice: Dice): void {
    const op = this.#begin('request', life, from, to, dice);
    const timeoutMs = dice.pick([1_000, 5_000, 30_000]);
    const agent = life.agents.get(from.id)!;
    const asked = agent.request(this.#fabric.address(to, life.station), this.#payload(op), { timeoutMs });
    this.#track(op, asked, (answer) => {
      this.#fabric.check('request', answer === op.index, () => `${op.about} was answered ${JSON.stringify(answer)}`);
    });
  }

  #broadcast(life: UpLife, from: Role): void {
    const op = this.#begin('broadcast', life, from, undefined);
    // Members and the owner fetch their messages.
    const cards = [...life.node.registry.getLocalCards(), ...life.node.registry.getRemoteCards()];
    const address = ({ id, node }: AgentCard) => (node === undefined ? id : `${id}@${node}`);
    const fetching = cards.filter((card) => !this.#fabric.roleAt(address(card), life.station)).length;
    this.#track(op, life.agents.get(from.id)!.broadcast(this.#payload(op)), (result) => {
      const { recipients, delivered, withheld, failed } = (result as { broadcast: Record<string, number> }).broadcast;
      const sum = delivered! + withheld! + failed!;
      this.#fabric.check('broadcast', sum === recipients, () => `the counts of ${op.about} do not add up`);
      const reached = op.heardBy.length >= delivered! - fetching;
      this.#fabric.check('broadcast', reached, () => `${op.about} reached ${op.heardBy.length}, not ${delivered}`);
    });
  }

  #begin(kind: Kind, life: UpLife, from: Role, to: Role | undefined, dice?: Dice): Op {
    const index = this.#ops.length;
    const wayBack = to !== undefined && kind === 'request' && !isWithinSandbox(to, from);
    const op: Op = {
      index,
      kind,
      life,
      from,
      to,
      about: `${kind} ${index} ${from.id}→${to?.id ?? 'all'}`,
      delayMs: dice?.chance(0.3) ? dice.between(0, 8_000) : 0,
      fails: dice?.chance(0.08) === true,
      allowed: to === undefined || (mayOpen(from, to) && !wayBack),
      outcome: 'pending',
      heardBy: [],
      securityEvents: 0,
    };
    this.#ops.push(op);
    this.#fabric.note(op.about);
    this.#fabric.count(kind);
    return op;
  }

  #payload({ index }: Op) {
    return { cap: this.name, op: index };
  }

  #track(op: Op, promise: Promise<unknown>, check: (value: unknown) => void = () => {}): void {
    promise.then(
      (value) => {
        if (op.life.state === 'crashed') return;
        op.outcome = 'resolved';
        this.#fabric.note(`${op.about} resolved`);
        this.#judgeResolved(op);
        check(value);
      },
      (error: unknown) => {
        if (op.life.state === 'crashed') return;
        this.#fabric.note(`${op.about} failed: ${nameOf(error)}`);
        const typed = error instanceof EclipticError && isErrorCode(error.code);
        this.#fabric.check('request', typed, () => `${op.about} failed with what no catalogue has: ${nameOf(error)}`);
        if (typed) op.outcome = error;
      },
    );
  }

  onMessage(message: Message, role: Role, life: UpLife): void {
    this.#hear(message, role, life);
  }

  onRequest(message: Message, role: Role, life: UpLife): unknown {
    const op = this.#hear(message, role, life);
    if (!op) return undefined;
    if (op.fails) throw new Error(ON_PURPOSE);
    if (op.delayMs === 0) return op.index;
    return life.runtime.pause(op.delayMs).then(() => (life.state === 'crashed' ? NEVER : op.index));
  }

  #hear(message: Message, role: Role, life: UpLife): Op | undefined {
    const fabric = this.#fabric;
    const op = this.#ops[noteOf(message.payload)!.op];
    if (!op) {
      fabric.violation('message to another node', `${role.id} got what nobody sent`);
      return undefined;
    }
    if (life.state === 'crashed') return undefined;
    fabric.note(`${life.name}: ${role.id} got ${op.about}`);
    fabric.count('heard');
    const subject = subjectOf(op);
    const again = op.heardBy.some((heard) => heard.role === role || op.kind !== 'broadcast');
    fabric.check(subject, !again, () => `${role.id} got ${op.about} again`);
    fabric.check(subject, op.to === undefined || op.to === role, () => `${role.id} got ${op.about}`);
    op.heardBy.push({ role, life });
    const path = `${op.kind} ${op.life.name} ${op.from.id} ${role.id}`;
    const before = this.#heard.get(path) ?? -1;
    fabric.check(subject, op.index > before, () => `${role.id} got ${op.about} after ${before}`);
    this.#heard.set(path, op.index);
    fabric.check('policy', mayOpen(op.from, role), () => `${role.id} got ${op.about}, which policy forbids`);
    const expected = fabric.address(op.from, role.station);
    fabric.check('policy', message.from === expected, () => `${op.about} came as ${message.from}`);
    const { removedAt } = op.from.station;
    const shunned = removedAt !== undefined && life.node.network.hasRemoved(op.from.station.key);
    fabric.check('membership', !shunned, () => `${life.name} knows that ${op.from.station.name} was removed`);
    return op;
  }

  onEvent({ type, code, sender, recipient, messageType }: A2ALogEvent, life: UpLife): void {
    if (type !== 'security' || (code !== 'TIER_VIOLATION' && code !== 'SANDBOX_VIOLATION')) return;
    const from = this.#fabric.roleAt(sender ?? '', life.station);
    const to = this.#fabric.roleAt(recipient ?? '', life.station);
    const kind: Kind = messageType === 'request' ? 'request' : 'send';
    const isIt = (op: Op) => op.from === from && op.to === to && op.life === life && op.kind === kind;
    const first = this.#ops.find((op) => isIt(op) && op.outcome === 'pending' && op.securityEvents === 0);
    if (first) first.securityEvents++;
  }

  #judgeResolved(op: Op): void {
    const { fails, about, heardBy, kind } = op;
    if (kind === 'broadcast') return;
    this.#fabric.check(subjectOf(op), heardBy.length === 1, () => `${about} resolved, heard ${heardBy.length} times`);
    this.#fabric.check('policy', op.allowed, () => `${about} resolved, although policy forbids it`);
    if (kind === 'request') this.#fabric.check('handlers', !fails, () => `${about} resolved, but its handler threw`);
  }

  left(): string[] {
    return this.#ops
      .filter(({ outcome, life }) => outcome === 'pending' && !isGone(life))
      .map(({ about }) => `${about} is not settled`);
  }

  judge(): void {
    for (const op of this.#ops) {
      const { outcome, heardBy, about, kind } = op;
      if (!(outcome instanceof EclipticError)) continue;
      const unknown = outcome.details.outcome === 'unknown';
      const maybe = unknown || (kind === 'request' && MAYBE.includes(outcome.code));
      this.#fabric.check(
        subjectOf(op),
        maybe || heardBy.length === 0,
        () => `${about} was heard, but failed: ${nameOf(outcome)}`,
      );
      const refused = outcome.code === 'TIER_VIOLATION' || outcome.code === 'SANDBOX_VIOLATION';
      if (!refused) continue;
      // To a sandboxed sender, an agent that its node does not know at present looks like one that is hidden.
      const hidden = outcome.code === 'SANDBOX_VIOLATION' && op.from.sandbox !== undefined;
      const right = !op.allowed || hidden;
      this.#fabric.check('refusal', right, () => `${about} was refused, but policy allows it: ${outcome.code}`);
      this.#fabric.check('refusal', op.securityEvents > 0, () => `${about} was refused without a security event`);
    }
  }
}

function subjectOf({ to, from, kind }: Op): Subject {
  if (kind === 'broadcast') return 'broadcast';
  return to?.station === from.station ? 'local message' : 'message to another node';
}

function isGone({ state }: Life): boolean {
  return state === 'crashed';
}
