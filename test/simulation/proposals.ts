import type { Agent } from '../../src/agent/agent.js';
import { EclipticError, isErrorCode } from '../../src/runtime/errors.js';
import type { Negotiation, ProposalStatus, ReceivedProposal } from '../../src/work/proposals/proposal.js';
import { type Capability, noteOf, pickPair } from './capability.js';
import type { Subject } from './contract.js';
import type { Dice } from './dice.js';
import {
  type Fabric,
  isWithinSandbox,
  type Life,
  mayOpen,
  nameOf,
  ON_PURPOSE,
  type Role,
  type UpLife,
} from './fabric.js';

interface Op {
  readonly index: number;
  readonly from: Role;
  readonly to: Role;
  readonly life: UpLife;
  readonly durable: boolean;
  readonly about: string;
  readonly answer: 'accept' | 'reject' | 'nothing';
  readonly answerAfterMs: number;
  readonly workMs: number;
  readonly workFails: boolean;
  readonly id: string;
  /** Did the proposer learn that it was sent? */
  sent: boolean;
  works: number;
  /** The processes of the addressee that had it. */
  readonly heldBy: Set<Life>;
  /** Terminal states that each side ever showed. */
  readonly seen: { readonly proposer: Set<ProposalStatus>; readonly addressee: Set<ProposalStatus> };
}

/** An agent remembers its latest hundred proposals that are over. */
const REMEMBERED = 90;

/** Work that one agent proposes to another: both end alike, whatever happens between them. */
export class Proposals implements Capability {
  readonly name = 'proposals';
  readonly weight = 8;
  readonly #fabric: Fabric;
  readonly #ops: Op[] = [];

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  enter(agent: Agent, _role: Role, life: UpLife): void {
    agent.onProposal((received) => this.#received(received, life));
  }

  act(dice: Dice): void {
    const pair = pickPair(this.#fabric, dice);
    if (!pair || !mayOpen(pair.from, pair.to) || !isWithinSandbox(pair.to, pair.from)) return;
    const { from, to, life } = pair;
    const durable = dice.chance(0.6);
    const index = this.#ops.length;
    const about = `proposal ${index} ${from.id}→${to.id}${durable ? ' (durable)' : ''}`;
    const drawn = {
      answer: dice.pick(['accept', 'accept', 'accept', 'reject', 'nothing'] as const),
      answerAfterMs: dice.between(0, 4_000),
      workMs: dice.between(0, 6_000),
      workFails: dice.chance(0.15),
    };
    const deadlineMs = Math.round(dice.between(500, 20_000));
    // It goes over a rank that would otherwise ask for a reason.
    const terms = { taskDescription: 'work', deadlineMs, durable, justification: 'as the simulation wants it' };
    const input = { cap: this.name, op: index };
    const known = { index, from, to, life, durable, about, ...drawn, sent: false, works: 0 };
    let negotiation: Negotiation;
    try {
      negotiation = life.agents.get(from.id)!.propose({ to: this.#fabric.address(to, life.station), input, ...terms });
    } catch (error) {
      const typed = error instanceof EclipticError && isErrorCode(error.code);
      this.#fabric.check('proposal', typed, () => `${about} could not be made: ${nameOf(error)}`);
      return;
    }
    const seen = { proposer: new Set<ProposalStatus>(), addressee: new Set<ProposalStatus>() };
    const op: Op = { ...known, id: negotiation.proposal.proposalId, heldBy: new Set(), seen };
    this.#ops.push(op);
    this.#fabric.note(about);
    this.#fabric.count('proposal');
    this.#follow(op, negotiation);
    if (dice.chance(0.1)) void life.runtime.pause(dice.between(0, 5_000)).then(() => negotiation.withdraw());
  }

  #follow(op: Op, negotiation: Negotiation): void {
    const alive = () => op.life.state !== 'crashed';
    negotiation.sent.then(
      () => {
        if (alive()) op.sent = true;
      },
      () => {},
    );
    negotiation.answered.then(
      ({ status }) => this.#fabric.note(`${op.about} is ${status}`),
      () => {},
    );
    negotiation.result.then(
      (value) => {
        if (!alive()) return;
        const right = value === `made ${op.index}` && op.works > 0;
        this.#fabric.check(subjectOf(op), right, () => `${op.about} has the result ${JSON.stringify(value)}`);
      },
      (error: unknown) => {
        if (!alive()) return;
        const typed = error instanceof EclipticError && isErrorCode(error.code);
        this.#fabric.check(subjectOf(op), typed, () => `${op.about} failed with ${nameOf(error)}`);
      },
    );
  }

  async #received(received: ReceivedProposal, life: UpLife): Promise<void> {
    const op = this.#ops[noteOf(received.input)?.op ?? -1];
    if (!op || life.state === 'crashed') return;
    op.heldBy.add(life);
    const { runtime } = life;
    this.#fabric.note(`${life.name} has ${op.about}${received.resumed ? ' again' : ''}`);
    if (op.answer === 'nothing') return;
    await runtime.pause(op.answerAfterMs);
    if (op.answer === 'reject') return received.reject('busy').catch(() => {});
    const engagement = await received.accept().catch(() => undefined);
    if (!engagement || life.state !== 'up') return;
    op.works++;
    await runtime.pause(op.workMs);
    if (op.workFails) await engagement.fail(new Error(ON_PURPOSE)).catch(() => {});
    else await engagement.complete(`made ${op.index}`).catch(() => {});
  }

  #statusAt(role: Role, op: Op): ProposalStatus | undefined {
    return this.#fabric.agent(role)?.negotiator.getProposal(op.id)?.status;
  }

  look(): void {
    for (const op of this.#ops) {
      for (const [side, role] of [['proposer', op.from] as const, ['addressee', op.to] as const]) {
        const status = this.#statusAt(role, op);
        if (status === undefined || status === 'pending') continue;
        op.seen[side].add(status);
        const alike = op.seen[side].size === 1;
        this.#fabric.check(
          subjectOf(op),
          alike,
          () => `${op.about}: its ${side} saw ${[...op.seen[side]].join(' and ')}`,
        );
      }
    }
  }

  left(): string[] {
    return this.#comparable.flatMap((op) => {
      const open = [op.from, op.to].filter((role) => this.#statusAt(role, op) === 'pending');
      return open.map(({ id }) => `${id} waits in ${op.about}`);
    });
  }

  /** A side that is not durable and has ended knows nothing, and neither does a removed one. */
  get #comparable(): Op[] {
    return this.#ops.filter(({ from, to, durable, life, heldBy }) => {
      if (from.station.removedAt !== undefined || to.station.removedAt !== undefined) return false;
      return durable || (life.state === 'up' && [...heldBy].every(({ state }) => state === 'up'));
    });
  }

  judge(): void {
    this.look();
    for (const op of this.#comparable) {
      const proposer = this.#statusAt(op.from, op);
      const addressee = this.#statusAt(op.to, op);
      const check = (holds: boolean, text: string) =>
        this.#fabric.check(subjectOf(op), holds, () => `${op.about} ${text}`);
      const mayBeForgotten = this.#ops.filter(({ from, to }) => from === op.from || to === op.from).length > REMEMBERED;
      check(!op.sent || proposer !== undefined || mayBeForgotten, 'was sent, and its proposer knows nothing of it');
      if (proposer === undefined) continue;
      const alike = addressee === undefined || addressee === proposer || proposer === 'timed-out';
      check(alike, `ends ${proposer} at its proposer and ${addressee} at its addressee`);
      check(proposer !== 'timed-out' || addressee !== 'accepted', 'was accepted after its deadline');
      const both = this.#ops.filter(({ from, to }) => from === op.to || to === op.to).length;
      check(proposer !== 'accepted' || addressee !== undefined || both > REMEMBERED, 'was accepted by nobody');
    }
  }
}

function subjectOf({ durable }: Op): Subject {
  return durable ? 'durable proposal' : 'proposal';
}
