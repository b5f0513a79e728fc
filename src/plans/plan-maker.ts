import { isAlias, isCollection, parseDocument, stringify, visit } from 'yaml';
import { EclipticError } from '../runtime/errors.js';
import { unfenced } from '../runtime/json-text.js';
import { cutText } from '../runtime/text.js';
import type { LoopAgent } from './dispatcher.js';
import { readPlan } from './plan-check.js';
import { judgeOf, type Plan } from './plan-schema.js';
import { addressOf, type MeshWorld } from './plan-world.js';
import { asData, listed, strictObject } from './questions.js';

export interface PlanWish {
  /** What the plan is to achieve, in words. */
  readonly goal: string;
  /** The agent that makes it. Default: the sun, or another L0 agent with a worker. */
  readonly with?: string | undefined;
  /** The agent of this node that asks, and would hand out the tasks. */
  readonly as?: string | undefined;
}

/** A planner was asked, for the nth time; from the second on, because of these faults. */
export interface PlanAsked {
  readonly event: 'asked';
  readonly planner: string;
  readonly attempt: number;
  readonly faults: readonly string[];
}

export interface MadePlan {
  readonly planner: string;
  /** The plan as YAML. */
  readonly text: string;
  readonly plan: Plan;
  /** How often the planner was asked. */
  readonly attempts: number;
}

/** How often a plan with faults goes back to its planner. */
const MAX_REPAIRS = 3;
/** For one answer. A model may think for long. */
const ANSWER_MS = 300_000;
/** Faults and agents in a question. */
const MAX_FAULTS = 50;
const MAX_AGENTS = 200;
const MAX_ABOUT_CHARS = 200;

/** Has an agent write a plan that can be run now: its answer is checked, and goes back with its faults if it has any. */
export async function makePlan(
  wish: PlanWish & { readonly as: string },
  { world, agent }: { readonly world: MeshWorld; readonly agent: LoopAgent },
  tell: (asked: PlanAsked) => void,
  signal: AbortSignal,
): Promise<MadePlan> {
  const { goal, as } = wish;
  const planner = world.planner(wish.with, as);
  const workers = world.workers(as).slice(0, MAX_AGENTS);
  if (workers.length === 0)
    throw new EclipticError(
      'NO_WORKER',
      'no agent that could work on a plan has a worker. To staff some: ecliptic staff',
    );
  const agents = workers.map((card) => ({
    agent: addressOf(card),
    tier: card.tier,
    description: cutText(card.description.replaceAll(/\s+/g, ' '), MAX_ABOUT_CHARS),
    capabilities: card.capabilities.map(({ id }) => id),
  }));
  const isJudged = world.adviser(judgeOf({ criteria: [] })!, as) === undefined;
  let faults: readonly string[] = [];
  let text: string | undefined;
  for (let attempt = 1; attempt <= 1 + MAX_REPAIRS; attempt++) {
    tell({ event: 'asked', planner, attempt, faults });
    const question = {
      text: questionText(goal, agents, text, faults),
      outputSchema: PLAN_SCHEMA,
      ...{ goal, agents },
      ...(text !== undefined && { plan: text, faults }),
    };
    const answer = await agent.request(planner, question, { timeoutMs: ANSWER_MS, signal });
    text = planText(answer, isJudged);
    try {
      const plan = await readPlan(text, 'plan.yaml', world, as);
      faults = foreignCommands(plan);
      if (faults.length === 0) return { planner, text, plan, attempts: attempt };
    } catch (error) {
      if (!(error instanceof EclipticError) || !Array.isArray(error.details.faults)) throw error;
      faults = (error.details.faults as string[]).slice(0, MAX_FAULTS);
    }
  }
  const message = `${planner} made no valid plan in ${1 + MAX_REPAIRS} attempts; the faults of the last one:\n  ${faults.join('\n  ')}`;
  throw new EclipticError('INVALID_PLAN', message, { planner, faults });
}

/** The answer as YAML: an object, or a text that is JSON or YAML, perhaps in a code fence. */
function planText(answer: unknown, isJudged: boolean): string {
  if (typeof answer !== 'string') return asYaml(answer, isJudged);
  const said = unfenced(answer);
  const document = parseDocument(said, { prettyErrors: false });
  let hasAlias = false;
  visit(document, {
    Alias: (_, node) => {
      hasAlias ||= isAlias(node);
    },
  });
  // Otherwise the text is read as it is, so that its faults are found where they are.
  const isPlain = document.errors.length === 0 && !hasAlias && isCollection(document.contents);
  return isPlain ? asYaml(document.toJS(), isJudged) : said;
}

function asYaml(value: unknown, isJudged: boolean): string {
  const plan = withoutNulls(value) ?? null;
  const tasks = isRecord(plan) && Array.isArray(plan.tasks) ? plan.tasks : undefined;
  const whole = tasks ? { ...(plan as object), tasks: tasks.map((task) => withCriteria(task, isJudged)) } : plan;
  return stringify(whole, { lineWidth: 0 });
}

/** Acceptance criteria are for the validator, where there is one, else for the worker. */
function withCriteria(task: unknown, isJudged: boolean): unknown {
  if (!isRecord(task) || !Array.isArray(task.criteria) || task.validate !== undefined) return task;
  const { criteria, ...rest } = task;
  if (isJudged) return { ...rest, validate: { criteria } };
  return { ...rest, description: `${rest.description}\nThe result is accepted if:\n${listed(criteria.map(String))}` };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Fields with any JSON, in which null and empty values mean something. */
const FREE: ReadonlySet<string> = new Set(['input', 'schema']);

/** Strict structured output has no optional fields: a field that is not used is null, or an empty list. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).flatMap(([key, part]) => {
    const isUnused = part === null || part === '' || (Array.isArray(part) && part.length === 0 && key !== 'tasks');
    if (isUnused) return [];
    return [[key, FREE.has(key) ? part : withoutNulls(part)] as const];
  });
  return Object.fromEntries(kept);
}

/** A command runs on this machine, so only the owner adds one to a plan. */
function foreignCommands({ tasks }: Plan): string[] {
  return tasks
    .filter(({ validate }) => validate?.command !== undefined)
    .map(({ id }) => `the task "${id}" has validate.command: only the operator adds commands to a plan`);
}

interface OfferedAgent {
  readonly agent: string;
  readonly tier: number;
  readonly description: string;
  readonly capabilities: readonly string[];
}

function questionText(
  goal: string,
  agents: readonly OfferedAgent[],
  plan: string | undefined,
  faults: readonly string[],
): string {
  const rows = agents.map(({ agent, tier, description, capabilities }) => {
    return `${agent} (L${tier}): ${capabilities.join(', ') || 'no capabilities'}${description && ` — ${description}`}`;
  });
  const rules = [
    'A task goes to one "agent", or to any agent with its "capabilities"; give exactly one of the two. Use only the agents and capabilities above.',
    '"description" says what to do and what the result is. The agent sees only it and the results of the tasks in "dependsOn".',
    '"dependsOn" names tasks whose results the task needs. Tasks that do not depend on each other run at the same time.',
    '"divisible": true lets several agents share a task with capabilities.',
    '"criteria" are acceptance criteria for the result of a task.',
    'An "id" has up to 64 letters, digits, "_", "-" and ".". Leave out, or set to null, whatever is not needed.',
  ];
  return [
    `Make a plan of tasks for this goal:\n${asData(goal)}`,
    `Agents that can work on it now, with capabilities and what they say of themselves:\n${asData(listed(rows))}`,
    `Rules:\n${listed(rules)}`,
    ...(plan === undefined
      ? []
      : [
          `Your last plan:\n${asData(plan)}`,
          `It has faults; correct them, and answer with the whole plan:\n${listed(faults)}`,
        ]),
    'Answer with the plan alone: an object with "name", "description" and "tasks".',
  ].join('\n\n');
}

function optionalBut(required: readonly string[], properties: Readonly<Record<string, unknown>>) {
  // The plan's own check names a field that does not belong there.
  return { ...strictObject(properties), required, additionalProperties: true };
}

/** The plan's JSON Schema as far as models with strict structured output understand it. */
function planSchemaForModels(): Readonly<Record<string, unknown>> {
  const text = { type: 'string' };
  const texts = { type: 'array', items: text };
  const orNull = (schema: Readonly<Record<string, unknown>>) => ({ ...schema, type: [schema.type, 'null'] });
  return optionalBut(['tasks'], {
    name: { ...text, description: 'A short name: lower-case words with hyphens.' },
    description: text,
    tasks: {
      type: 'array',
      // Small models leave out what is not needed; strict ones set it to null.
      items: optionalBut(['id', 'description'], {
        id: text,
        description: text,
        agent: orNull(text),
        capabilities: orNull(texts),
        divisible: orNull({ type: 'boolean' }),
        dependsOn: texts,
        criteria: orNull(texts),
      }),
    },
  });
}

const PLAN_SCHEMA = planSchemaForModels();
