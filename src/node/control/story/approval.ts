import { OWNER } from '../../../coding-agents/mailbox/letter.js';
import type { StoryEvent, StoryWait } from '../../../http/dashboard/facts.js';
import type { Approval } from '../../../system/approvals/approval-queue.js';
import { auditedAbout, auditProof } from './decisions.js';
import { ALONE, eventOf, type StoryContext, type StorySource } from './told.js';

/** Questions to the owner, open or decided. */
export function approvalSource(context: StoryContext): StorySource {
  const all = () => context.on.approvals({ all: true }, ALONE);
  return {
    kind: 'approval',
    ids: async (given) => (await all()).map(({ id }) => id).filter((id) => id.startsWith(given)),
    async tell(id) {
      const approval = (await all()).find((one) => one.id === id);
      if (!approval) return undefined;
      const { summary: title, decision, details, kind, createdAt: startedAt } = approval;
      const thread = threadOf(approval);
      const ruling = decision && thread !== undefined ? await rulingOf(thread, decision.at, context) : undefined;
      const events = approvalEvents(approval, context.key).map((event) =>
        event.word === 'asked' || !ruling ? event : { ...event, proof: ruling },
      );
      const over = decision !== undefined;
      return {
        ...{ id, kind: 'approval', title, state: over ? verdictWord(decision.verdict) : 'asked', over, startedAt },
        endedAt: decision?.at ?? null,
        waits: approvalWait([approval]),
        events: events.map(({ link: _, ...event }) => event),
        payload: { kind, ...details },
        related: thread === undefined ? [] : [{ id: thread, kind: 'thread' }],
      };
    },
  };
}

/** The questions that work in these conversations asked. */
export async function approvalsIn(threads: readonly string[], { on }: StoryContext): Promise<readonly Approval[]> {
  return (await on.approvals({ all: true }, ALONE)).filter((one) => {
    const thread = threadOf(one);
    return thread !== undefined && threads.includes(thread);
  });
}

/** The owner is asked, and decides; or the time does. */
export function approvalEvents(
  { id, details, kind, summary, createdAt, decision }: Approval,
  key: string,
): StoryEvent[] {
  const from = typeof details.agent === 'string' ? details.agent : kind;
  const proof = { kind: 'record', text: `approval request ${id}` } as const;
  const about = { proof, link: id };
  const asked = eventOf(key, { at: createdAt, from, to: OWNER, word: 'asked', text: summary, ...about });
  if (!decision) return [asked];
  const { at, verdict, by } = decision;
  const denied = verdict === 'deny';
  return [
    asked,
    eventOf(key, {
      ...{ at, from: OWNER, to: from, word: verdictWord(verdict), text: decisionText(verdict, by), ...about },
      ...(denied && { code: 'PROVIDER_POLICY_DENIED', rule: decisionText(verdict, by) }),
    }),
  ];
}

/** The wait for the oldest open question. */
export function approvalWait(approvals: readonly Approval[]): StoryWait | null {
  const open = approvals.find(({ decision }) => decision === undefined);
  if (!open) return null;
  const { createdAt: since, expiresAt: until = null, summary, id } = open;
  return { for: OWNER, since, until, reason: `the owner’s approval ${id}: ${summary}` };
}

function verdictWord(verdict: string): string {
  return verdict === 'deny' ? 'denied' : 'allowed';
}

function decisionText(verdict: string, by: string): string {
  if (by === 'timeout') return 'no decision came in time';
  if (by === 'standing') return 'allowed always by an earlier decision';
  return `${by} decided: ${verdict.replaceAll('-', ' ')}`;
}

function threadOf({ details }: Approval): string | undefined {
  return typeof details.correlationId === 'string' ? details.correlationId : undefined;
}

/** The audited ruling that followed from a decision. */
async function rulingOf(thread: string, at: number, context: StoryContext) {
  const audited = await auditedAbout(thread, at, context);
  const found = audited.find(({ event }) => event.type === 'action' && event.correlationId === thread);
  return found && auditProof(found);
}
