import { createHash } from 'node:crypto';
import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Approval } from './approval-queue.js';
import type { Approvals } from './approvals.js';

/** An action that an agent wants to take. */
export interface Action {
  readonly agent: string;
  readonly provider?: string | undefined;
  /** The kind of action: `fs.read`, `fs.write`, `terminal.run`, `tool.call`, … */
  readonly action: string;
  /** The object of the action: a path within the lane's folder, a command, a tool's name. */
  readonly subject: string;
}

const pattern = z.string().min(1).max(1_024);

const ActionRuleSchema = z.strictObject({
  agent: pattern.optional().describe('The agents that the rule applies to; `*` matches anything. Default: all.'),
  provider: pattern
    .optional()
    .describe('The providers that the rule applies to. Default: all, and actions without a provider.'),
  action: pattern.describe('The action, such as "fs.write" or "fs.*".'),
  match: pattern.optional().describe('The target: a path, a command or a tool. Default: any.'),
  decision: z.enum(['allow', 'deny', 'ask']),
});

export const ActionRulesSchema = z
  .array(ActionRuleSchema)
  .max(1_000)
  .describe(
    'Actions that agents may take without asking. A matching "deny" wins, then the first matching rule; an action without a rule is denied. Default: files of an agent’s own folder and tools that only read are allowed, and you are asked about everything else.',
  );

export type ActionRule = Readonly<z.infer<typeof ActionRuleSchema>>;

interface ActionDecision {
  readonly decision: ActionRule['decision'];
  /** Index of the rule that decided; undefined where no rule matches. */
  readonly rule: number | undefined;
}

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
  // A path with `..` may lead out of the folder that a pattern allows.
  if (rule.decision !== 'deny' && /(^|[\\/])\.\.([\\/]|$)/.test(subject)) return false;
  return matches(rule.match, subject);
}

/** `*` matches any characters. Linear in the text for any pattern. */
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
 * Decides whether an agent may use files, run commands or call tools on its own.
 *
 *     const ruling = await gate.check({ agent: 'mars', provider: 'mars', action: 'fs.write', subject: 'src/a.ts' },
 *       { summary: 'may mars write src/a.ts?', details: { bytes: 12 }, correlationId, signal });
 *     if (ruling.allowed) …            // `ruling.lasting`: the operator allowed it always
 *
 * `require` throws `PROVIDER_POLICY_DENIED` where the action is denied. The configured rules decide; where they say `ask`,
 * the operator decides through the approval queue, and no answer means no. Subjects are compared as text: give paths
 * resolved, absolute or relative to the lane's folder. Each ruling is reported.
 */

export interface ActionGateComponents {
  approvals: Approvals;
  report: (action: Action, ruling: ActionRuling, correlationId: string | undefined) => void;
}

export interface ActionGateInit {
  /** Without rules, everything is denied. */
  rules?: readonly ActionRule[];
  /** Time for the operator to answer. Default 5 minutes. */
  timeoutMs?: number;
}

export interface CheckOptions {
  /** The question for the operator. Default: made from the action. */
  readonly summary?: string;
  /** Further facts for the operator. Never a secret. `allow-always` holds for the same details only. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** The change of a file, as lines that begin with `+`, `-` or a space. Made only when the operator is asked. */
  readonly diff?: () => readonly string[] | Promise<readonly string[]>;
  readonly correlationId?: string | undefined;
  /** Aborting withdraws the question. */
  readonly signal?: AbortSignal | undefined;
  /** The folder that the action happens in, for the operator. */
  readonly folder?: string | undefined;
  /** Called when the operator is asked. */
  readonly onWaiting?: ((approval: Approval) => void) | undefined;
}

export interface ActionRuling {
  readonly allowed: boolean;
  readonly by: 'rule' | 'no-rule' | 'operator' | 'standing' | 'timeout' | 'too-many';
  /** The operator allowed it always. */
  readonly lasting: boolean;
  readonly reason: string;
}

/** The kind of its questions. */
const ACTION_APPROVAL = 'action';

const TIMEOUT_MS = 300_000;
/** Open questions of one agent. */
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

  /** Rejects with `CANCELLED` when the signal aborts, and when the question cannot be stored. */
  async check(action: Action, options: CheckOptions = {}): Promise<ActionRuling> {
    const ruling = await this.#rule(action, options);
    this.#components.report(action, ruling, options.correlationId);
    return ruling;
  }

  /** As `check`, but throws `PROVIDER_POLICY_DENIED` where the action is denied. */
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

  /** Does a rule deny the action, whatever the operator would say? Nothing is reported: for parts of a permitted action. */
  denies(action: Action): boolean {
    return decideAction(this.#rules, action).decision === 'deny';
  }

  async #rule(action: Action, options: CheckOptions): Promise<ActionRuling> {
    const { decision, rule } = decideAction(this.#rules, action);
    if (rule === undefined) return denied('no-rule', 'no rule of the policy allows it');
    const place = `rule ${rule + 1} of the policy`;
    if (decision === 'allow') return { allowed: true, by: 'rule', lasting: false, reason: `${place} allows it` };
    if (decision === 'deny') return denied('rule', `${place} denies it`);
    return this.#ask(action, options);
  }

  async #ask(action: Action, options: CheckOptions): Promise<ActionRuling> {
    const { summary, details, diff, folder, correlationId, signal, onWaiting } = options;
    const { approvals } = this.#components;
    const { agent, provider, action: kind, subject } = action;
    // Before the questions are counted, so that the limit holds.
    const change = diff ? await diff() : undefined;
    const rule = ruleFor(action);
    const questions = approvals.waiting.filter((item) => item.kind === ACTION_APPROVAL && item.details.agent === agent);
    if (questions.length >= MAX_QUESTIONS)
      return denied('too-many', `${questions.length} of its questions wait already`);
    const { decision } = await approvals.settle(
      {
        kind: ACTION_APPROVAL,
        subject: JSON.stringify([agent, provider ?? null, kind, subject, ...fingerprint(details)]),
        summary: summary ?? `${agent} wants to do ${kind} on ${subject}`,
        details: {
          ...{ ...details, agent, provider: provider ?? null, action: kind, subject, correlationId },
          ...(folder !== undefined && { folder }),
          ...(change && { diff: change }),
          ...(rule && { rule }),
        },
        timeoutMs: this.#timeoutMs,
      },
      signal,
      onWaiting,
    );
    return rulingOf(decision!);
  }
}

/** The rule that would allow the action without a question. None for a text with `*`, which a rule reads as a pattern. */
function ruleFor({ agent, action, subject }: Action): ActionRule | undefined {
  return subject.includes('*') ? undefined : { agent, action, match: subject, decision: 'allow' };
}

/** Binds an approval to the details that the operator saw: an agent may choose a misleading subject. */
function fingerprint(details: CheckOptions['details']): string[] {
  return details === undefined ? [] : [createHash('sha256').update(JSON.stringify(details)).digest('hex').slice(0, 32)];
}

function rulingOf({ verdict, by }: NonNullable<Approval['decision']>): ActionRuling {
  if (by === 'timeout') return denied('timeout', 'no decision came in time');
  if (verdict === 'deny') return denied('operator', `${by} denied it`);
  const lasting = verdict === 'allow-always';
  if (by === 'standing') return { allowed: true, by, lasting, reason: 'it is always allowed' };
  return { allowed: true, by: 'operator', lasting, reason: `${by} allowed it${lasting ? ' always' : ''}` };
}

function denied(by: ActionRuling['by'], reason: string): ActionRuling {
  return { allowed: false, by, lasting: false, reason };
}
