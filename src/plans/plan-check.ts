import { isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, visit } from 'yaml';
import type { z } from 'zod';
import { weighJson } from '../mesh/json-value.js';
import { EclipticError } from '../runtime/errors.js';
import { readPick } from './picked-input.js';
import { judgeOf, type Plan, PlanSchema, WORKERS } from './plan-schema.js';

/** What a plan may count on. Each method returns the problem, or undefined. */
export interface PlanWorld {
  /** May the dispatcher `as` give that agent a task? */
  worker(agent: string, as: string | undefined): string | undefined;
  /** May it ask that agent something? */
  adviser(agent: string, as: string | undefined): string | undefined;
  /** Is there an agent with all of these? */
  capable(capabilities: readonly string[], as: string | undefined): string | undefined;
  /** May tasks be handed out under that name? */
  dispatcher(agent: string): string | undefined;
  /** Can a result be checked with that JSON Schema? */
  schema(schema: object): Promise<string | undefined>;
}

/** Characters of a plan's text. */
const MAX_CHARS = 1_048_576;

/** Reads a plan, or refuses it with all its faults, each with its line, before anything of it runs. */
export async function readPlan(text: string, file: string, world: PlanWorld, as?: string): Promise<Plan> {
  if (text.length > MAX_CHARS) {
    throw new EclipticError('PAYLOAD_TOO_LARGE', `${file} has more than ${MAX_CHARS} characters`, { file });
  }
  const placed = new PlanText(text.replace(/^\ufeff/, ''));
  if (placed.syntaxFaults.length > 0) throw invalid(file, placed.syntaxFaults);
  const parsed = PlanSchema.safeParse(placed.value);
  const check = new PlanCheck(placed, world, as);
  await check.run();
  const faults = [...placed.schemaFaults(parsed.error?.issues ?? []), ...check.faults];
  if (parsed.success && faults.length === 0) return parsed.data;
  throw invalid(file, faults);
}

function invalid(file: string, faults: readonly Fault[]): EclipticError {
  const sorted = faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
  const lines = sorted.map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`);
  return new EclipticError('INVALID_PLAN', `the plan has faults:\n  ${lines.join('\n  ')}`, { file, faults: lines });
}

/** A task or a sub-task, as far as it could be read. */
interface Step {
  readonly at: Path;
  readonly id: string | undefined;
  readonly dependsOn: readonly unknown[];
}

/** Checks that a schema cannot express. It reads invalid plans too, so that one fault does not hide another. */
class PlanCheck {
  readonly faults: Fault[] = [];
  readonly #text: PlanText;
  readonly #world: PlanWorld;
  readonly #as: string | undefined;

  constructor(text: PlanText, world: PlanWorld, as: string | undefined) {
    this.#text = text;
    this.#world = world;
    this.#as = as ?? textOf(record(text.value).as);
    if (as === undefined && this.#as !== undefined) this.#note(['as'], world.dispatcher(this.#as));
  }

  async run(): Promise<void> {
    const { tasks: given, planner } = record(this.#text.value);
    const tasks = list(given);
    this.#adviser(planner, ['planner']);
    this.#graph(tasks, ['tasks'], 'task');
    for (const [index, task] of tasks.entries()) {
      if (isRecord(task)) await this.#task(task, ['tasks', index]);
    }
  }

  async #task(task: Readonly<Record<string, unknown>>, at: Path): Promise<void> {
    if (WORKERS.filter((key) => task[key] !== undefined).length !== 1) {
      this.#note(at, 'needs one of "agent", "capabilities" and "swarm"');
    }
    this.#worker(task.agent, [...at, 'agent']);
    this.#ableTogether(task.capabilities, [...at, 'capabilities']);
    this.#swarm(task.swarm, [...at, 'swarm']);
    this.#divisible(task, at);
    await this.#validator(task.validate, [...at, 'validate']);
    this.#json(task.input, [...at, 'input']);
    this.#inputFrom(task, at);
  }

  #divisible({ divisible, planner, capabilities }: Readonly<Record<string, unknown>>, at: Path): void {
    const needs = 'needs "capabilities": the swarm is made of agents that have them';
    if (divisible === true && capabilities === undefined) this.#note([...at, 'divisible'], needs);
    if (planner !== undefined && capabilities === undefined) this.#note([...at, 'planner'], needs);
    this.#adviser(planner, [...at, 'planner']);
  }

  #inputFrom({ inputFrom, input, dependsOn }: Readonly<Record<string, unknown>>, at: Path): void {
    if (!isRecord(inputFrom)) return;
    if (input !== undefined && !isRecord(input)) this.#note([...at, 'input'], 'must be an object beside "inputFrom"');
    const known = list(dependsOn).filter((id) => typeof id === 'string');
    for (const [name, pick] of Object.entries(inputFrom)) {
      if (typeof pick !== 'string') continue;
      const fault = `"${pick}" must begin with a task of "dependsOn"`;
      if (!readPick(pick, known)) this.#note([...at, 'inputFrom', name], fault);
    }
  }

  #swarm(swarm: unknown, at: Path): void {
    if (!isRecord(swarm)) return;
    for (const [index, capability] of list(swarm.capabilities).entries()) {
      this.#capable([capability], [...at, 'capabilities', index]);
    }
    this.#adviser(swarm.planner, [...at, 'planner']);
    this.#worker(swarm.aggregator, [...at, 'aggregator']);
    const subTasks = list(swarm.subTasks);
    this.#graph(subTasks, [...at, 'subTasks'], 'sub-task');
    for (const [index, subTask] of subTasks.entries()) {
      const { requiredCapabilities, input } = record(subTask);
      this.#capable(requiredCapabilities, [...at, 'subTasks', index, 'requiredCapabilities']);
      this.#json(input, [...at, 'subTasks', index, 'input']);
    }
  }

  async #validator(validator: unknown, at: Path): Promise<void> {
    if (!isRecord(validator)) return;
    if (Object.keys(validator).length === 0) this.#note(at, 'needs a "schema", a "command", "criteria" or an "agent"');
    this.#adviser(validator.agent, [...at, 'agent']);
    if (validator.agent === undefined && Array.isArray(validator.criteria)) {
      const judge = judgeOf({ criteria: [] })!;
      const refusal = this.#world.adviser(judge, this.#as);
      if (refusal !== undefined) {
        const how = `name an "agent" that judges, because ${judge} cannot: ${refusal}`;
        this.#note([...at, 'criteria'], how);
      }
    }
    if (isRecord(validator.schema)) this.#note([...at, 'schema'], await this.#world.schema(validator.schema));
  }

  #worker(agent: unknown, at: Path): void {
    if (typeof agent === 'string' && agent !== '') this.#note(at, this.#world.worker(agent, this.#as));
  }

  #adviser(agent: unknown, at: Path): void {
    if (typeof agent === 'string' && agent !== '') this.#note(at, this.#world.adviser(agent, this.#as));
  }

  #capable(capabilities: unknown, at: Path): void {
    const wanted = list(capabilities).filter((one) => typeof one === 'string');
    if (wanted.length > 0) this.#note(at, this.#world.capable(wanted, this.#as));
  }

  /** One agent with all of them, or several that form a swarm. */
  #ableTogether(capabilities: unknown, at: Path): void {
    const wanted = list(capabilities);
    const all = wanted.filter((one) => typeof one === 'string');
    if (all.length < 2) this.#capable(capabilities, at);
    else if (this.#world.capable(all, this.#as) !== undefined) {
      for (const [index, one] of wanted.entries()) this.#capable([one], [...at, index]);
    }
  }

  #json(value: unknown, at: Path): void {
    const weight = value === undefined ? 0 : weighJson(value);
    if (typeof weight !== 'number') this.#note(at, `${weight.path ? `${weight.path} ` : ''}${weight.problem}`);
  }

  /** Duplicate ids, missing tasks, and cycles. */
  #graph(items: readonly unknown[], at: Path, kind: string): void {
    const steps = items.map((item, index): Step => {
      const { id, dependsOn } = record(item);
      return { at: [...at, index], id: textOf(id), dependsOn: list(dependsOn) };
    });
    const known = new Map<string, Step>();
    for (const step of steps) {
      if (step.id === undefined) continue;
      if (known.has(step.id)) this.#note([...step.at, 'id'], `there is another ${kind} "${step.id}"`);
      else known.set(step.id, step);
    }
    for (const step of steps) {
      for (const [index, id] of step.dependsOn.entries()) {
        if (typeof id === 'string' && !known.has(id)) {
          this.#note([...step.at, 'dependsOn', index], `there is no ${kind} "${id}"`);
        }
      }
    }
    for (const circle of findCycles(known)) {
      const path = [...circle, circle[0]!].join(' → ');
      this.#note([...known.get(circle[0]!)!.at, 'dependsOn'], `goes in a circle: ${path}`);
    }
  }

  #note(path: Path, message: string | undefined): void {
    if (message !== undefined) this.faults.push(this.#text.fault(path, message));
  }
}

/** Cycles of dependencies, each once. */
function findCycles(steps: ReadonlyMap<string, Step>): string[][] {
  const cycles: string[][] = [];
  const done = new Set<string>();
  for (const start of steps.keys()) {
    const trail: { id: string; rest: Iterator<unknown> }[] = [];
    const enter = (id: string) => trail.push({ id, rest: steps.get(id)!.dependsOn[Symbol.iterator]() });
    if (!done.has(start)) enter(start);
    while (trail.length > 0) {
      const { id, rest } = trail.at(-1)!;
      const { value: next, done: over } = rest.next();
      if (over) {
        done.add(id);
        trail.pop();
      } else if (typeof next === 'string' && steps.has(next) && !done.has(next)) {
        const from = trail.findIndex((step) => step.id === next);
        if (from < 0) enter(next);
        else cycles.push(trail.slice(from).map((step) => step.id));
      }
    }
  }
  return cycles;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

type Path = readonly (string | number)[];

/** A mistake in a plan, and its place. The message begins with the faulty part. */
interface Fault {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** A text that is no YAML may have very many syntax errors. */
const MAX_SYNTAX_FAULTS = 20;

/** A plan's text as a value whose parts know their places. JSON is YAML, too. */
class PlanText {
  readonly value: unknown;
  readonly syntaxFaults: readonly Fault[];
  readonly #root: Node | null;
  readonly #lines = new LineCounter();

  constructor(text: string) {
    const document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false });
    const wrong = [...document.errors, ...document.warnings].slice(0, MAX_SYNTAX_FAULTS);
    const faults = wrong.map(({ pos, message }) => this.#at(pos[0], message.split('\n')[0]!));
    this.#root = document.contents as Node | null;
    // This key would change a prototype.
    visit(document, {
      Pair: (_, { key }) => {
        if (!isScalar(key) || key.value !== '__proto__') return;
        faults.push(this.#at(key.range?.[0] ?? 0, '__proto__: is a reserved key'));
      },
    });
    try {
      this.value = faults.length === 0 ? document.toJS({ maxAliasCount: 100 }) : undefined;
    } catch (error) {
      // Too many aliases: the value would grow without bounds.
      faults.push(this.#at(0, (error as Error).message));
    }
    this.syntaxFaults = faults;
  }

  /** A fault of the value at a path, or of the nearest existing one above it. */
  fault(path: Path, message: string): Fault {
    return this.#at(this.#find(path)?.value.range?.[0] ?? 0, `${path.join('.') || 'the plan'}: ${message}`);
  }

  /** A fault of the key that a path ends with. */
  keyFault(path: Path, message: string): Fault {
    const found = this.#find(path);
    const node = found?.key ?? found?.value;
    return this.#at(node?.range?.[0] ?? 0, `${path.join('.')}: ${message}`);
  }

  schemaFaults(issues: readonly z.core.$ZodIssue[]): Fault[] {
    return issues.flatMap((issue) => {
      const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
      if (issue.code !== 'unrecognized_keys') return [this.fault(path, issue.message)];
      return issue.keys.map((key) => this.keyFault([...path, key], 'is not a key that belongs here'));
    });
  }

  #at(offset: number, message: string): Fault {
    const { line, col } = this.#lines.linePos(offset);
    // An empty text has no lines.
    return { line: Math.max(1, line), column: Math.max(1, col), message };
  }

  #find(path: Path): { key?: Node; value: Node } | undefined {
    if (!this.#root) return undefined;
    let found: { key?: Node; value: Node } = { value: this.#root };
    for (const step of path) {
      const next = memberOf(found.value, step);
      if (!next) return found;
      found = next;
    }
    return found;
  }
}

function memberOf(node: Node, step: string | number): { key?: Node; value: Node } | undefined {
  if (isSeq(node)) {
    const item = node.items[Number(step)];
    return item ? { value: item as Node } : undefined;
  }
  if (!isMap(node)) return undefined;
  const pair = (node.items as Pair<Node, Node | null>[]).find(
    ({ key }) => isScalar(key) && String(key.value) === String(step),
  );
  return pair && { key: pair.key, value: pair.value ?? pair.key };
}
