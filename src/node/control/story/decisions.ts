import type { Proof, StoryEvent } from '../../../http/dashboard/facts.js';
import type { AuditRow, JournalRow } from '../../../mesh/audit/tables.js';
import { unpackEnvelope } from '../../../mesh/codec.js';
import type { A2AEnvelope, A2ALogEvent } from '../../../mesh/schemas.js';
import { eventOf, type StoryContext } from './told.js';

/** An audited event and the number of its row. */
export interface Audited {
  readonly row: number;
  readonly event: A2ALogEvent;
}

const MAX_AUDITED = 50;
/** An audited event is written up to this long before the journal's row of the same message. */
const SLACK_MS = 1_000;

/** What the audit log has about an id since a time. */
export async function auditedAbout(
  id: string,
  since: number,
  { node }: Pick<StoryContext, 'node'>,
): Promise<Audited[]> {
  const rows = (await node.records?.audit.mentioning(id, since - SLACK_MS, MAX_AUDITED)) ?? [];
  return rows.map(({ seq, event }: AuditRow) => ({ row: seq, event: JSON.parse(event) as A2ALogEvent }));
}

export function auditProof({ row }: Audited): Proof {
  return { kind: 'audit', text: `row ${row} of the audit log` };
}

export function envelopeOf({ envelope, at }: JournalRow): A2AEnvelope {
  return { ...unpackEnvelope(JSON.parse(envelope)), timestamp: at };
}

/** The router's decision about a message, with the rule behind a refusal. */
export function decisionEvent(row: JournalRow, audited: readonly Audited[], key: string): StoryEvent {
  const { at, sender: from, recipient: to, code, seq, type, envelopeId } = row;
  const found = audited.find(({ event }) => {
    return event.envelopeId === envelopeId && event.type === 'routing-decision' && event.code === code;
  });
  const crossing = audited.find(({ event }) => event.envelopeId === envelopeId && event.type === 'tier-audit');
  const known = code === null ? crossing : found;
  const inJournal = `row ${seq} of the journal`;
  const proof: Proof = known
    ? { kind: 'audit', text: `${inJournal}, ${auditProof(known).text}` }
    : { kind: 'row', text: inJournal };
  const rule = code === null ? null : (found?.event.reason ?? partiesText(row));
  return eventOf(key, { at, from, to, word: decisionWord(row), text: type, code, rule, proof });
}

/** A durable message was only allowed by then; its receipt says what became of it. */
export function decisionWord({ code, envelope, recipient }: JournalRow): string {
  if (code !== null) return 'refused';
  if (unpackEnvelope(JSON.parse(envelope)).metadata?.durable) return 'allowed';
  return recipient.includes('@') ? 'relayed' : 'delivered';
}

/** Failures that the journal does not have: unknown recipients, and messages that other nodes did not take. */
export function failureEvents(
  id: string,
  audited: readonly Audited[],
  rows: readonly JournalRow[],
  key: string,
): StoryEvent[] {
  const failures = audited.filter(({ event }) => {
    if (event.envelopeId !== id || event.type !== 'routing-decision' || event.code === undefined) return false;
    return !rows.some(({ code }) => code === event.code);
  });
  return failures.map((one) => {
    const { timestamp: at, sender: from = null, recipient: to = null, code = null, reason = null } = one.event;
    const word = rows.length === 0 ? 'refused' : 'undeliverable';
    const text = one.event.messageType ?? null;
    return eventOf(key, { at, from, to, word, text, code, rule: reason, proof: auditProof(one) });
  });
}

/** The recorded grounds of a decision, where the audit log no longer has its reason. */
function partiesText({ decision, sender, recipient }: JournalRow): string {
  const { source, target } = JSON.parse(decision) as Record<'source' | 'target', { tier: number; sandboxId?: string }>;
  const standing = (address: string, { tier, sandboxId }: typeof source) => {
    return `${address} (L${tier}${sandboxId === undefined ? '' : `, sandbox "${sandboxId}"`})`;
  };
  return `${standing(sender, source)} to ${standing(recipient, target)}`;
}
