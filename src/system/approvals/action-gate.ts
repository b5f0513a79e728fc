import { createHash } from 'node:crypto';
import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Approval } from './approval-queue.js';
import type { Approvals } from './approvals.js';

/** Something that an agent wants to do by itself. */
export interface Action {
  /** Who wants it: the id of an agent. */
  readonly agent: string;
  /** The provider that it would be done by, or for. */
  readonly provider?: string | undefined;
  /** What kind of thing, as words with dots: `fs.read`, `fs.write`, `terminal.run`, `tool.call`, … */
  readonly action: string;
  /** What it would be done to: a path within the lane's folder, a command, a tool's name. */
  readonly subject: string;
}

const pattern = z.string().min(1).max(1_024);

const ActionRuleSchema = z.strictObject({
  agent: pattern.optional().describe('The agents that it is about; `*` stands for anything. Default: all.'),
  provider: pattern.optional().describe('The providers that it is about. Default: all, and none.'),
  action: pattern.describe('What they want to do, such as "fs.write" or "fs.*".'),
  match: pattern.optional().describe('What they want to do it to: a path, a command, a tool. Default: anything.'),
  decision: z.enum(['allow', 'deny', 'ask']),
});

export const ActionRulesSchema = z
  .array(ActionRuleSchema)
  .max(1_000)
  .describe(
    'What agents may do by themselves. A "deny" that fits wins, else the first rule that fits; without one it is denied. Default: files of their own folder are theirs, and you are asked about everything else.',
  );

export type ActionRule = Readonly<z.infer<typeof ActionRuleSchema>>;

interface ActionDecision {
  readonly decision: ActionRule['decision'];
  /** The place of the rule that decided; none where no rule fits. */
  readonly rule: number | undefined;
}

/** What the rules say of an action. */
export function decideAction(rules: readonly ActionRule[], action: Action): ActionDecision {
  const fitting = rules.flatMap((rule, place) =>
    fits(rule, action) ? [{ decision: rule.decision, rule: place }] : [],
  );
  return fitting.find(({ decision }) => decision === 'deny') ?? fitting[0] ?? { decision: 'deny', rule: undefined };
}

function fits(rule: ActionRule, { agent, provider, action, subject }: Action): boolean {
  if (rule.agent !== undefined && !matches(rule.agent, agent)) return false;
  if (rule.provider !== undefined && (provider === undefined || !matches(rule.provider, provider))) return false;
  if (!matches(rule.action, action)) return false;
  if (rule.match === undefined || rule.match === subject) return true;
  // A path that climbs is not where it seems to be: what is let through by a pattern must not lead elsewhere.
  if (rule.decision !== 'deny' && /(^|[\\/])\.\.([\\/]|$)/.test(subject)) return false;
  return matches(rule.match, subject);
}

/** `*` stands for any characters. Takes time that grows with the text, whatever the pattern. */
function matches(pattern: string, text: string): boolean {
  const [first, ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return pattern === text;
  if (!text.startsWith(first!)) return false;
  let at = first!.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - at >= last.length && text.endsWith(last);
}

/**
 * The gate before whatever an agent wants to do by itself: touch files, run commands, call tools.
 *
 *     const ruling = await gate.check({ agent: 'mars', provider: 'mars', action: 'fs.write', subject: 'src/a.ts' },
 *       { summary: 'may mars write src/a.ts?', details: { bytes: 12 }, correlationId, signal });
 *     if (ruling.allowed) …            // `ruling.lasting`: the operator allowed it for good
 *
 * `require` is the same with `PROVIDER_POLICY_DENIED` for a no. The rules of the configuration decide; where they say
 * `ask`, the operator does, through the queue of approvals, and silence is a no. Subjects are compared as text: give paths
 * in full or relative to the lane's folder, and resolved. Each ruling is reported, whatever it is.
 */

export interface ActionGateComponents {
  approvals: Approvals;
  /** Told of each ruling. */
  report: (action: Action, ruling: ActionRuling, correlationId: string | undefined) => void;
}

export interface ActionGateInit {
  /** Without any, everything is denied. */
  rules?: readonly ActionRule[];
  /** How long the operator has to answer. Default 5 minutes. */
  timeoutMs?: number;
}

interface CheckOptions {
  /** The question, for people. Default: made from the action. */
  readonly summary?: string;
  /** What else the operator should see. Never a secret. What is allowed for good is allowed with the same details only. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly correlationId?: string | undefined;
  /** Aborted when nobody waits for the ruling any more; the question is then taken back. */
  readonly signal?: AbortSignal | undefined;
}

export interface ActionRuling {
  readonly allowed: boolean;
  /** What decided: a rule, that there is none, the operator now or for good, silence, or too many questions. */
  readonly by: 'rule' | 'no-rule' | 'operator' | 'standing' | 'timeout' | 'too-many';
  /** The operator allowed it for good. */
  readonly lasting: boolean;
  /** For people. */
  readonly reason: string;
}

/** The kind of its questions. */
const ACTION_APPROVAL = 'action';

const TIMEOUT_MS = 300_000;
/** Questions of one agent that may wait. */
const MAX_QUESTIONS = 100;

export class ActionGate {
  readonly #components: ActionGateComponents;
  readonly #rules: readonly ActionRule[];
  readonly #timeoutMs: number;

  constructor(components: ActionGateComponents, init: ActionGateInit = {}) {
    this.#components = components;
    this.#rules = init.rules ?? [];
    this.#timeoutMs = init.timeoutMs ?? TIMEOUT_MS;
  }

  /** May it be done? Rejects with `CANCELLED` when nobody waits any more, and when the question cannot be kept. */
  async check(action: Action, options: CheckOptions = {}): Promise<ActionRuling> {
    const ruling = await this.#rule(action, options);
    this.#components.report(action, ruling, options.correlationId);
    return ruling;
  }

  /** As `check`, with a no as `PROVIDER_POLICY_DENIED`. */
  async require(action: Action, options: CheckOptions = {}): Promise<ActionRuling> {
    const ruling = await this.check(action, options);
    if (ruling.allowed) return ruling;
    const { agent, provider, action: kind, subject } = action;
    const message = `${agent} may not do ${kind} on "${subject}": ${ruling.reason}`;
    throw new EclipticError('PROVIDER_POLICY_DENIED', message, {
      agent,
      provider,
      action: kind,
      subject,
      by: ruling.by,
    });
  }

  async #rule(action: Action, options: CheckOptions): Promise<ActionRuling> {
    const { decision, rule } = decideAction(this.#rules, action);
    if (rule === undefined) return denied('no-rule', 'no rule of the policy allows it');
    const place = `rule ${rule + 1} of the policy`;
    if (decision === 'allow') return { allowed: true, by: 'rule', lasting: false, reason: `${place} allows it` };
    if (decision === 'deny') return denied('rule', `${place} denies it`);
    return this.#ask(action, options);
  }

  async #ask(action: Action, { summary, details, correlationId, signal }: CheckOptions): Promise<ActionRuling> {
    const { approvals } = this.#components;
    const { agent, provider, action: kind, subject } = action;
    const questions = approvals.waiting.filter((item) => item.kind === ACTION_APPROVAL && item.details.agent === agent);
    if (questions.length >= MAX_QUESTIONS)
      return denied('too-many', `${questions.length} of its questions wait already`);
    const { decision } = await approvals.settle(
      {
        kind: ACTION_APPROVAL,
        subject: JSON.stringify([agent, provider ?? null, kind, subject, ...fingerprint(details)]),
        summary: summary ?? `${agent} wants to do ${kind} on ${subject}`,
        details: { ...details, agent, provider: provider ?? null, action: kind, subject, correlationId },
        timeoutMs: this.#timeoutMs,
      },
      signal,
    );
    return rulingOf(decision!);
  }
}

/** What is allowed for good is what the operator saw: a subject that an agent words itself may stand for anything. */
function fingerprint(details: CheckOptions['details']): string[] {
  return details === undefined ? [] : [createHash('sha256').update(JSON.stringify(details)).digest('hex').slice(0, 32)];
}

function rulingOf({ verdict, by }: NonNullable<Approval['decision']>): ActionRuling {
  if (by === 'timeout') return denied('timeout', 'nobody decided in time');
  if (verdict === 'deny') return denied('operator', `${by} denied it`);
  const lasting = verdict === 'allow-always';
  if (by === 'standing') return { allowed: true, by, lasting, reason: 'it was allowed for good' };
  return { allowed: true, by: 'operator', lasting, reason: `${by} allowed it${lasting ? ' for good' : ''}` };
}

function denied(by: ActionRuling['by'], reason: string): ActionRuling {
  return { allowed: false, by, lasting: false, reason };
}
