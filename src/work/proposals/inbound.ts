import { ValidEnvelope } from '../../mesh/envelope.js';
import type { NegotiationContext } from './negotiation-context.js';
import type { ProposalTable } from './proposal-table.js';
import {
  isFault,
  PROPOSAL,
  proposalIn,
  readAccept,
  readError,
  readNotice,
  readProposal,
  readReject,
} from './proposal-wire.js';
import type { ReceivedTerms } from './received-task.js';
import type { SentProposal } from './sent-proposal.js';

const UNKNOWN = 'this proposal is not known here any more';

/** Takes a new proposal; returns the reason if it cannot. */
type Arrived = (terms: ReceivedTerms, weight: number) => string | undefined;

/** Reads messages about one agent's proposals, checks that their sender may send them, and hands them to the proposal. */
export class Inbound {
  readonly #context: NegotiationContext;
  readonly #table: ProposalTable;
  readonly #arrived: Arrived;

  constructor(context: NegotiationContext, table: ProposalTable, arrived: Arrived) {
    this.#context = context;
    this.#table = table;
    this.#arrived = arrived;
  }

  /** Takes an envelope that belongs to a proposal; false for any other. */
  take(envelope: ValidEnvelope): boolean {
    switch (envelope.type) {
      case 'task-proposal':
        return this.#takeProposal(envelope);
      case 'task-accept':
        return this.#takeAccept(envelope);
      case 'task-reject':
        return this.#takeReject(envelope);
      default: {
        const id = proposalIn(envelope.payload);
        if (id === undefined) return false;
        this.#takeOther(id, envelope);
        return true;
      }
    }
  }

  #takeProposal(envelope: ValidEnvelope): boolean {
    const payload = readProposal(envelope);
    if (payload === undefined) return false;
    const { sender: from, correlationId: thread = '' } = envelope;
    if (isFault(payload)) {
      this.#answerError(envelope, payload.proposalId!, 'INVALID_ENVELOPE', payload.fault);
      return true;
    }
    const known = this.#table.receivedFrom(from, payload.proposalId);
    if (known) {
      if (known.thread === thread) known.hear({ type: 'proposal' });
      return true;
    }
    const refusal = this.#arrived({ envelope, payload, from, thread }, ValidEnvelope.weightOf(envelope));
    if (refusal !== undefined) {
      const said = { proposalId: payload.proposalId, rejectionReason: refusal };
      this.#context.post({ peer: from, thread }, 'task-reject', said);
    }
    return true;
  }

  #takeAccept(envelope: ValidEnvelope): boolean {
    const said = readAccept(envelope.payload);
    if (said === undefined) return false;
    const sent = this.#answerFor(said.proposalId!, envelope);
    if (!sent) return true;
    if (isFault(said)) {
      sent.step({ type: 'failure', error: { code: 'INVALID_ENVELOPE', message: said.fault, details: {} } });
    } else if (this.#context.localName(said.acceptedBy) !== envelope.sender) {
      this.#context.refused(sent, 'forged', envelope.sender);
    } else {
      const { estimatedCompletionMs, load, again } = said;
      sent.step({ type: 'accept', offer: { estimatedCompletionMs, load }, again: again === true });
    }
    return true;
  }

  #takeReject(envelope: ValidEnvelope): boolean {
    const said = readReject(envelope.payload);
    if (said === undefined) return false;
    const sent = this.#answerFor(said.proposalId!, envelope);
    if (!sent) return true;
    if (isFault(said)) sent.step({ type: 'reject', reason: 'unspecified', alternative: undefined });
    else {
      const { rejectionReason: reason, alternativeSuggestion } = said;
      const alternative = alternativeSuggestion && this.#context.localName(alternativeSuggestion);
      sent.step({ type: 'reject', reason, alternative });
    }
    return true;
  }

  /** The proposal that is answered, if its addressee answers in its thread. Any other answer is refused. */
  #answerFor(id: string, envelope: ValidEnvelope): SentProposal | undefined {
    const sent = this.#table.sentBy(id);
    const { sender: from, correlationId: thread = '' } = envelope;
    if (!sent) {
      this.#context.refused({ id, peer: from, thread }, 'late', from);
      this.#answerError(envelope, id, 'PROPOSAL_NOT_FOUND', UNKNOWN);
      return undefined;
    }
    if (sent.peer === from && sent.thread === thread) return sent;
    this.#context.refused(sent, 'forged', from);
    return undefined;
  }

  /** Progress, results and errors of work; confirmations and refusals of the proposer. */
  #takeOther(id: string, envelope: ValidEnvelope): void {
    const { sender, correlationId, type, payload } = envelope;
    const sent = this.#table.sentBy(id);
    if (sent?.peer === sender) {
      if (sent.thread === correlationId) this.#hearOfWork(sent, envelope);
      return;
    }
    const notice = type === 'notification' ? readNotice(payload) : undefined;
    const task = this.#table.receivedFrom(sender, id);
    if (task) {
      if (task.thread !== correlationId) return;
      if (notice === 'confirm') task.hear({ type: 'confirm' });
      else if (notice === 'received') task.settle();
      else if (type === 'error') task.hear({ type: 'refuse', error: readError(payload) });
    } else if (sent) this.#context.refused(sent, 'forged', sender);
    else if (type === 'response' || type === 'stream-data' || notice === 'confirm') {
      // The sender counts on an unknown proposal, and must learn that. An error is never answered with an error.
      this.#answerError(envelope, id, 'PROPOSAL_NOT_FOUND', UNKNOWN);
    }
  }

  #hearOfWork(sent: SentProposal, envelope: ValidEnvelope): void {
    const { type, payload } = envelope;
    const said = payload as { progress?: unknown; result?: unknown; query?: unknown };
    if (type === 'stream-data' && said.query === true) sent.step({ type: 'query' });
    else if (type === 'stream-data') sent.step({ type: 'progress', value: said.progress });
    else if (type === 'response') {
      sent.weight += ValidEnvelope.weightOf(envelope);
      sent.step({ type: 'result', value: said.result });
    } else if (type === 'error') sent.step({ type: 'failure', error: readError(payload) });
  }

  #answerError(
    { sender: peer, correlationId: thread = '' }: ValidEnvelope,
    id: string,
    code: 'INVALID_ENVELOPE' | 'PROPOSAL_NOT_FOUND',
    message: string,
  ): void {
    this.#context.post({ peer, thread }, 'error', { [PROPOSAL]: id, code, message, details: {} });
    this.#context.release(this.#context.agentId, peer, thread);
  }
}
