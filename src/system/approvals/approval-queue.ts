import { z } from 'zod';

export const VerdictSchema = z.enum(['allow-once', 'allow-always', 'deny']);
export type Verdict = z.infer<typeof VerdictSchema>;

const DecisionSchema = z.strictObject({
  verdict: VerdictSchema,
  /** The person; `timeout` without an answer in time, `standing` where it was allowed always before. */
  by: z.string().min(1),
  at: z.number(),
});

/** A question for the operator, open or decided. */
export const ApprovalSchema = z.strictObject({
  id: z.string().min(1),
  kind: z.string().min(1),
  /** `allow-always` holds for this kind and subject. */
  subject: z.string().min(1),
  summary: z.string(),
  details: z.record(z.string(), z.unknown()),
  createdAt: z.number(),
  /** Denied without a decision by then. */
  expiresAt: z.number().optional(),
  decision: DecisionSchema.optional(),
});

export type Approval = Readonly<z.infer<typeof ApprovalSchema>>;

/** A kind and subject that are always allowed. */
export const StandingSchema = z.strictObject({ kind: z.string(), subject: z.string() });
type Standing = Readonly<z.infer<typeof StandingSchema>>;

/** Open and recently decided questions, oldest first. */
export interface Queue {
  readonly items: readonly Approval[];
  readonly standing: readonly Standing[];
}

export type QueueEvent =
  | { readonly type: 'requested'; readonly items: readonly Approval[] }
  | {
      readonly type: 'decided';
      readonly ids: readonly string[];
      readonly verdict: Verdict;
      readonly by: string;
      readonly at: number;
    }
  | { readonly type: 'withdrawn'; readonly ids: readonly string[] }
  | { readonly type: 'revoked'; readonly kind: string; readonly subjects: ReadonlySet<string> }
  | { readonly type: 'due'; readonly at: number };

interface QueueStep {
  readonly next: Queue;
  readonly decided: readonly Approval[];
}

export const EMPTY: Queue = { items: [], standing: [] };

/** Decided questions that are kept. */
const REMEMBERED = 1_000;

/** The pure queue machine. An event about a question that is not open changes nothing. */
export function advance(queue: Queue, event: QueueEvent): QueueStep {
  switch (event.type) {
    case 'requested': {
      const added = event.items.map((item) =>
        isStanding(queue, item) ? decide(item, 'allow-always', 'standing', item.createdAt) : item,
      );
      return step({ ...queue, items: [...queue.items, ...added] }, added.filter(isDecided));
    }
    case 'decided': {
      const { ids, verdict, by, at } = event;
      const meant = new Set(ids);
      const found = queue.items.filter((item) => meant.has(item.id) && !isDecided(item));
      if (found.length === 0) return step(queue, []);
      const after = settle(queue, found, (item) => decide(item, verdict, by, at));
      if (verdict !== 'allow-always') return after;
      const lasting = found.filter((item) => !isStanding(queue, item)).map(({ kind, subject }) => ({ kind, subject }));
      return { ...after, next: { ...after.next, standing: [...queue.standing, ...lasting] } };
    }
    case 'withdrawn': {
      const gone = new Set(event.ids);
      return step({ ...queue, items: queue.items.filter((item) => isDecided(item) || !gone.has(item.id)) }, []);
    }
    case 'revoked': {
      const { kind, subjects } = event;
      const standing = queue.standing.filter((one) => one.kind !== kind || !subjects.has(one.subject));
      return step(standing.length === queue.standing.length ? queue : { ...queue, standing }, []);
    }
    case 'due': {
      const late = queue.items.filter((item) => !isDecided(item) && (item.expiresAt ?? Infinity) <= event.at);
      return late.length === 0
        ? step(queue, [])
        : settle(queue, late, (item) => decide(item, 'deny', 'timeout', event.at));
    }
  }
}

/** When the next question expires. */
export function nextDue({ items }: Queue): number | undefined {
  const times = items.filter((item) => !isDecided(item)).flatMap(({ expiresAt }) => expiresAt ?? []);
  return times.length === 0 ? undefined : Math.min(...times);
}

export function isDecided({ decision }: Approval): boolean {
  return decision !== undefined;
}

function settle(queue: Queue, some: readonly Approval[], change: (item: Approval) => Approval): QueueStep {
  const changed = new Map(some.map((item) => [item, change(item)]));
  return step({ ...queue, items: queue.items.map((item) => changed.get(item) ?? item) }, [...changed.values()]);
}

function step(next: Queue, decided: readonly Approval[]): QueueStep {
  const surplus = next.items.filter(isDecided).length - REMEMBERED;
  if (surplus <= 0) return { next, decided };
  const forgotten = new Set(next.items.filter(isDecided).slice(0, surplus));
  return { next: { ...next, items: next.items.filter((item) => !forgotten.has(item)) }, decided };
}

function decide(item: Approval, verdict: Verdict, by: string, at: number): Approval {
  return { ...item, decision: { verdict, by, at } };
}

function isStanding({ standing }: Queue, { kind, subject }: Approval): boolean {
  return standing.some((one) => one.kind === kind && one.subject === subject);
}
