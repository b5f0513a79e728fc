import { z } from 'zod';

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
