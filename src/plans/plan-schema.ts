import { createHash } from 'node:crypto';
import { z } from 'zod';
import { LIMITS } from '../mesh/limits.js';

/** A plan in YAML or JSON. The published JSON Schema is made from this; `plan-check` checks the rest. */

/** Tasks of one plan. */
const MAX_TASKS = 1_000;

const MAX_CRITERIA = 100;

/** The worker of a task: exactly one of these is given. */
export const WORKERS = ['agent', 'capabilities', 'swarm'] as const;

const positive = z.int().positive();
const taskId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, 'must be up to 64 letters, digits, "_", "-" and "."')
  .describe('The id of the task within its plan.');
const agent = z.string().min(1).max(LIMITS.nameChars);
const capabilities = z.array(z.string().min(1).max(LIMITS.idChars)).min(1).max(LIMITS.cardListEntries);
const description = z.string().min(1).max(LIMITS.textChars);

const ValidatorSchema = z
  .strictObject({
    schema: z.record(z.string(), z.unknown()).optional().describe('A JSON Schema that the result must match.'),
    command: z
      .array(z.string())
      .min(1)
      .optional()
      .describe(
        'A program and its arguments, started in the plan’s folder. It reads the result as JSON; exit code 0 approves it, otherwise its output is the feedback.',
      ),
    agent: agent
      .optional()
      .describe(
        'An agent that judges the result. It answers { verdict: "approved" | "needs-revision" | "rejected", feedback }.',
      ),
    criteria: z
      .array(description)
      .min(1)
      .max(MAX_CRITERIA)
      .optional()
      .describe('Acceptance criteria in words, for the worker and for the agent that judges (default: mercury).'),
  })
  .meta({ minProperties: 1 })
  .describe('Validators that must all approve the result, in this order.');

const SwarmSchema = z
  .strictObject({
    capabilities: capabilities.describe('Capabilities of the members: each must have one of these.'),
    subTasks: z
      .array(
        z.strictObject({
          id: taskId,
          description: description.optional().describe('Default: that of the task.'),
          requiredCapabilities: capabilities.optional().describe('Capabilities that the agent must have.'),
          dependsOn: z.array(taskId).max(MAX_TASKS).optional(),
          input: z.unknown().optional(),
        }),
      )
      .min(1)
      .max(MAX_TASKS)
      .optional()
      .describe('The sub-tasks. Default: made by the planner, otherwise one for each capability.'),
    planner: agent.optional().describe('An agent that splits the task.'),
    aggregator: agent.optional().describe('An agent that merges all results into one.'),
  })
  .describe('Several agents that work on it together.');

const TaskSchema = z
  .strictObject({
    id: taskId,
    description: description.describe('The work to do, for the agent that works on it.'),
    agent: agent.optional().describe('The agent that works on it: an id, or id@node.'),
    capabilities: capabilities
      .optional()
      .describe('Capabilities that the agent must have; if no single agent has all of them, a swarm works on it.'),
    swarm: SwarmSchema.optional(),
    divisible: z
      .boolean()
      .optional()
      .describe('For a task with capabilities: a swarm works on it, even if one agent has all of them.'),
    planner: agent
      .optional()
      .describe('An agent that splits the task when a swarm works on it. Default: the plan’s planner.'),
    dependsOn: z
      .array(taskId)
      .max(MAX_TASKS)
      .optional()
      .describe('Tasks that must be done first; the task gets their results.'),
    input: z.unknown().optional().describe('Any JSON, for the agent that works on it.'),
    inputFrom: z
      .record(z.string().min(1).max(LIMITS.idChars), z.string().min(1).max(LIMITS.textChars))
      .optional()
      .describe(
        'Fields of the input that are results of tasks in dependsOn: { name: "task" }, or a part: { name: "task.field.0" }.',
      ),
    validate: ValidatorSchema.optional(),
    retries: z.int().min(0).max(100).optional().describe('Default: the setting of the agent’s tier.'),
    timeoutMs: positive.optional().describe('Time limit of one attempt. Default: the setting of the agent’s tier.'),
    complexity: z.enum(['simple', 'medium', 'complex']).optional().describe('Default: medium.'),
  })
  .meta({ oneOf: WORKERS.map((key) => ({ required: [key] })) });

export const PlanSchema = z
  .strictObject({
    $schema: z.string().optional(),
    name: z
      .string()
      .min(1)
      .max(LIMITS.idChars)
      .optional()
      .describe('The name that identifies the plan when it is run again. Default: the file’s path.'),
    description: description.optional(),
    as: agent.optional().describe('The agent of this node that assigns the tasks. Default: sun, or another L0 agent.'),
    planner: agent.optional().describe('An agent that splits tasks which a swarm works on.'),
    concurrency: positive.optional().describe('Tasks in progress at once. Default: the setting in `hierarchy`.'),
    tasks: z.array(TaskSchema).min(1).max(MAX_TASKS),
  })
  .describe('A plan for the Ralph loop of an Ecliptic node');

export type Plan = z.output<typeof PlanSchema>;
export type PlanTask = z.output<typeof TaskSchema>;
export type Validator = z.output<typeof ValidatorSchema>;

/** The agent that judges by acceptance criteria, unless the plan names another. */
const USUAL_JUDGE = 'mercury';

/** The agent that judges a result, if one does. */
export function judgeOf({ agent: named, criteria }: Partial<Validator>): string | undefined {
  return named ?? (criteria === undefined ? undefined : USUAL_JUDGE);
}

/** The JSON Schema that editors use. */
export function planJsonSchema(): object {
  return z.toJSONSchema(PlanSchema, { io: 'input' });
}

/**
 * Fingerprints of the tasks: description, worker and validator of a task, and the same of all tasks it depends on. The
 * result of a task with the same fingerprint is still valid.
 */
export function fingerprintsOf({ tasks }: Pick<Plan, 'tasks'>): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const inOrder: PlanTask[] = [];
  const seen = new Set<string>();
  // Dependencies first; a plan has no cycles.
  const trail = tasks.toReversed();
  while (trail.length > 0) {
    const task = trail.at(-1)!;
    const missing = (task.dependsOn ?? []).filter((id) => !seen.has(id));
    if (missing.length === 0) {
      trail.pop();
      if (!seen.has(task.id)) inOrder.push(task);
      seen.add(task.id);
    } else for (const id of missing) trail.push(byId.get(id)!);
  }
  for (const { dependsOn = [], retries: _, timeoutMs: __, complexity: ___, ...parts } of inOrder) {
    const before = dependsOn.map((other) => [other, found.get(other)!]).sort();
    found.set(
      parts.id,
      createHash('sha256')
        .update(inOneForm({ ...parts, before }))
        .digest('base64url'),
    );
  }
  return found;
}

/** JSON with its keys in order. */
function inOneForm(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
