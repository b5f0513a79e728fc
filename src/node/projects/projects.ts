import { createHash } from 'node:crypto';
import { basename, join } from 'node:path';
import { z } from 'zod';
import type { Agent } from '../../agent/agent.js';
import type { AgentInit } from '../../agent/agent-init.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { Lanes } from '../../providers/host/lanes.js';
import type { Workers } from '../../providers/workers.js';
import { addDefaultBehaviour, vacancyOf } from '../../roster/planetary-roster.js';
import { describeError, EclipticError, toEclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { ActionRule } from '../../system/approvals/action-gate.js';
import type { Approval } from '../../system/approvals/approval-queue.js';
import type { Approvals } from '../../system/approvals/approvals.js';
import { JsonFile } from '../../system/files/private-file.js';
import type { Environment } from '../../system/process/environment.js';
import { cardOf } from '../config/agent-card.js';
import { readWorkers } from '../config/providers.js';
import type { AgentConfig } from '../config/schema.js';
import { type ProjectFile, projectOf, readProject } from './project-file.js';

interface ProjectsComponents {
  runtime: Runtime;
  node: { agent(init: AgentInit): Agent; readonly registry: AgentRegistry };
  approvals: Approvals;
  lanes: Lanes;
  env: Environment;
  /** Workers whose actions are ruled by these rules, and that start and take work while `permit` does not throw. */
  workersWith: (rules: readonly ActionRule[], permit: () => void) => Workers;
}

interface ProjectsInit {
  /** The data folder. */
  readonly folder: string;
  /** The configuration of the node itself, which is no project's. */
  readonly own: string | undefined;
  /** The owner's rules: what they deny, no project can allow. */
  readonly rules: readonly ActionRule[];
}

/** A project whose configuration was found, for people. */
export interface ProjectRow {
  readonly folder: string;
  readonly state: 'asked' | 'running' | 'denied' | 'invalid' | 'forgotten';
  readonly reason: string | null;
  /** Its agents on this node. */
  readonly agents: readonly string[];
  /** The clients that work in it. */
  readonly clients: readonly string[];
  readonly digest: string | null;
}

interface Project {
  state: ProjectRow['state'];
  reason?: string | undefined;
  digest?: string | undefined;
  question?: string | undefined;
  running: readonly { readonly agent: Agent; readonly lanes: readonly string[] }[];
  /** How often it was started; a lane that was closed is not used again. */
  starts: number;
  /** Changes of one project go one after the other. */
  work: Promise<void>;
}

/** The kind of its questions. */
const KIND = 'project';
const MAX_PROJECTS = 100;
const MAX_AGENTS = 50;
/** Decisions about contents; of more, the oldest are asked about again. */
const MAX_REMEMBERED = 500;
const SLUG_CHARS = 24;

const FileSchema = z.strictObject({
  version: z.literal(1),
  projects: z.array(
    z.strictObject({ folder: z.string(), digest: z.string(), verdict: z.enum(['allowed', 'denied']), at: z.number() }),
  ),
  /** Agents that projects have had: other nodes and clients must not learn of them from mail that waits for these. */
  agents: z.array(z.strictObject({ id: z.string(), folder: z.string() })),
});
type Remembered = z.infer<typeof FileSchema>['projects'][number];

/**
 * The agents that projects bring along in their own ecliptic.json. Nothing of it runs before the owner has allowed exactly
 * that content; and such an agent exists for the clients in its project and for the owner only.
 */
export class Projects {
  readonly #components: ProjectsComponents;
  readonly #init: ProjectsInit;
  readonly #file: JsonFile<z.infer<typeof FileSchema>>;
  readonly #projects = new Map<string, Project>();
  /** The project that each client works in. */
  readonly #clients = new Map<string, string>();
  /** The project of each agent, from before it is made until long after it has left. */
  readonly #agents = new Map<string, string>();
  #remembered: readonly Remembered[];
  readonly #stop: () => void;

  constructor(components: ProjectsComponents, init: ProjectsInit) {
    const { approvals } = components;
    this.#components = components;
    this.#init = init;
    this.#file = new JsonFile(join(init.folder, 'projects.json'), FileSchema);
    const { projects, agents } = this.#file.load() ?? { projects: [], agents: [] };
    this.#remembered = projects;
    for (const { id, folder: of } of agents) this.#agents.set(id, of);
    // Questions of an earlier run are asked again when a client comes.
    approvals.withdraw(...approvals.waiting.filter(({ kind }) => kind === KIND).map(({ id }) => id));
    this.#stop = approvals.onDecision((approval) => this.#decided(approval));
  }

  get rows(): readonly ProjectRow[] {
    return [...this.#projects].map(([folder, { state, reason = null, digest = null, running }]) => {
      const clients = [...this.#clients].flatMap(([name, at]) => (at === folder ? [name] : []));
      return { folder, state, reason, agents: running.map(({ agent }) => agent.id), clients, digest };
    });
  }

  /** A client works in that folder from now on. Its project's agents follow when they are allowed. */
  joined(client: string, checkout: string): void {
    const folder = projectOf(checkout);
    if (folder === undefined || join(folder, 'ecliptic.json') === this.#init.own) this.#clients.delete(client);
    else this.#clients.set(client, folder);
    this.#publish();
    const found = this.#clients.get(client);
    if (found !== undefined) this.#look(found);
  }

  /** Clients of earlier runs, which agents of their projects may still answer. */
  remember(clients: readonly { readonly name: string; readonly checkout: string }[]): void {
    for (const { name, checkout } of clients) {
      const folder = projectOf(checkout);
      if (folder !== undefined && !this.#clients.has(name)) this.#clients.set(name, folder);
    }
    this.#publish();
  }

  /** Ends the agents of a project; the next client that joins in it leads to the question again. */
  async forget(given: string): Promise<ProjectRow> {
    const folder = projectOf(given) ?? given;
    const project = this.#projects.get(folder);
    if (!project && !this.#remembered.some((one) => one.folder === folder)) {
      throw new EclipticError('USAGE', `no project in ${folder} is known; see: ecliptic project list`, {});
    }
    this.#remember(folder, undefined);
    this.#components.approvals.revoke(KIND, (subject) => subject.slice(0, subject.lastIndexOf(' ')) === folder);
    const known = project ?? this.#project(folder);
    await this.#next(known, async () => {
      this.#withdraw(known);
      await this.#end(known);
      Object.assign(known, { state: 'forgotten', reason: undefined, digest: undefined });
    });
    return this.rows.find((row) => row.folder === folder)!;
  }

  close(): void {
    this.#stop();
  }

  #project(folder: string): Project {
    const known = this.#projects.get(folder);
    if (known) return known;
    const project: Project = { state: 'asked', running: [], starts: 0, work: Promise.resolve() };
    this.#projects.set(folder, project);
    return project;
  }

  #next(project: Project, work: () => void | Promise<void>): Promise<void> {
    project.work = project.work.then(work).catch((error: unknown) => {
      project.state = 'invalid';
      project.reason = describeError(error);
      this.#components.runtime.logger.warn({ reason: project.reason }, 'configuration of a project is not used');
    });
    return project.work;
  }

  #look(folder: string): void {
    if (!this.#projects.has(folder) && this.#projects.size >= MAX_PROJECTS) {
      this.#components.runtime.logger.warn({ folder, limit: MAX_PROJECTS }, 'project not used: there are too many');
      return;
    }
    const project = this.#project(folder);
    void this.#next(project, async () => {
      const file = await this.#read(project, folder);
      const isKnown = project.digest === file.digest && project.state !== 'invalid' && project.state !== 'forgotten';
      if (isKnown && (project.state !== 'asked' || project.question !== undefined)) return;
      this.#withdraw(project);
      // What runs was allowed for another content.
      await this.#end(project);
      project.digest = file.digest;
      project.reason = undefined;
      const known = this.#remembered.find((one) => one.folder === folder && one.digest === file.digest);
      if (known?.verdict === 'allowed') await this.#start(project, file);
      else if (known) project.state = 'denied';
      else this.#ask(project, file);
    });
  }

  /** Of a content that cannot be read, nothing runs on. */
  async #read(project: Project, folder: string): Promise<ProjectFile> {
    try {
      return readProject(folder, this.#components.env);
    } catch (error) {
      this.#withdraw(project);
      await this.#end(project);
      throw error;
    }
  }

  /** Throws where the content is not the allowed one any more; then its agents end, and the owner is asked again. */
  #permit(folder: string, allowed: string): void {
    let digest: string | undefined;
    try {
      ({ digest } = readProject(folder, this.#components.env));
    } catch {
      // The reason is found again, and noted with the project.
    }
    if (digest === allowed) return;
    this.#look(folder);
    const message = `the project ${folder} has changed since its owner allowed it; the owner is asked again`;
    throw new EclipticError('PROVIDER_POLICY_DENIED', message, { folder });
  }

  #ask(project: Project, { folder, loaded, digest, about }: ProjectFile): void {
    const { approvals, runtime } = this.#components;
    const count = Object.keys(loaded.config.agents ?? {}).length;
    const summary = `may the project ${folder} run its ${count} agent${count === 1 ? '' : 's'} for clients that work in it?`;
    project.state = 'asked';
    const details = { agent: basename(folder), folder, ...about, digest };
    const [asked] = approvals.request({ kind: KIND, subject: `${folder} ${digest}`, summary, details });
    project.question = asked!.id;
    // It is allowed always from before: the decision was told before the id was known.
    if (asked!.decision) this.#decided(asked!);
    else runtime.logger.info({ folder, approval: asked!.id }, 'project waits for approval of its configuration');
  }

  #decided({ id, kind, decision }: Approval): void {
    if (kind !== KIND || !decision) return;
    const [folder, project] = [...this.#projects].find(([, { question }]) => question === id) ?? [];
    if (folder === undefined || !project) return;
    project.question = undefined;
    const { digest } = project;
    const { verdict } = decision;
    if (verdict !== 'allow-once')
      this.#remember(folder, { digest: digest!, verdict: verdict === 'deny' ? 'denied' : 'allowed' });
    void this.#next(project, async () => {
      if (verdict === 'deny') {
        project.state = 'denied';
        return;
      }
      const file = await this.#read(project, folder);
      if (file.digest === digest) await this.#start(project, file);
      else this.#look(folder);
    });
  }

  #withdraw(project: Project): void {
    const { question } = project;
    project.question = undefined;
    if (question !== undefined) this.#components.approvals.withdraw(question);
  }

  async #start(project: Project, { folder, loaded, digest }: ProjectFile): Promise<void> {
    const { workersWith, runtime } = this.#components;
    const agents = Object.entries(loaded.config.agents ?? {});
    if (agents.length > MAX_AGENTS) {
      throw new EclipticError('INVALID_CONFIG', `a project has at most ${MAX_AGENTS} agents`, { faults: ['agents'] });
    }
    const name = slugOf(folder);
    const idOf = (id: string) => `${id}-${name}`;
    const workers = workersWith(
      this.#rulesFor(
        loaded.config.policy,
        agents.map(([id]) => id),
        idOf,
      ),
      () => this.#permit(folder, digest),
    );
    project.starts++;
    const faults: string[] = [];
    const running: Project['running'][number][] = [];
    for (const [given, config] of agents) {
      const id = idOf(given);
      try {
        running.push(this.#startAgent({ id, config, folder, workers, start: project.starts }));
      } catch (error) {
        faults.push(`${given}: ${toEclipticError(error, 'INVALID_CONFIG').message}`);
      }
    }
    project.running = running;
    project.state = 'running';
    project.reason = faults.length === 0 ? undefined : faults.join('; ');
    const started = running.map(({ agent }) => agent.id);
    runtime.logger.info({ folder, agents: started, faults }, 'agents of a project started');
    void workers.start();
  }

  #startAgent(init: { id: string; config: AgentConfig; folder: string; workers: Workers; start: number }) {
    const { id, config, folder, workers, start } = init;
    const { node, env } = this.#components;
    if (config.module !== undefined) {
      throw new EclipticError('INVALID_CONFIG', 'a module runs only in a node of the project’s own: ecliptic up', {});
    }
    if (node.registry.entry(id)) throw new EclipticError('AGENT_EXISTS', `there is an agent "${id}" already`, {});
    const laneOf = (lane = id) => (start === 1 ? lane : `${lane}-${start}`);
    const inits = readWorkers(config, env, folder).map((worker) => {
      const own = worker.lane === undefined ? undefined : `${worker.lane}-${slugOf(folder)}`;
      return { ...worker, lane: laneOf(own) };
    });
    // Before it is made: nothing outside the project ever learns of it.
    this.#agents.set(id, folder);
    this.#save();
    this.#publish();
    const agent = node.agent({ id, ...cardOf(config), vacancy: vacancyOf(id) });
    if (inits.length > 0) workers.add(agent, inits);
    else addDefaultBehaviour(agent);
    return { agent, lanes: [...new Set(inits.map(({ lane }) => lane))] };
  }

  /** The project's rules with the names of its agents here, after what the owner denies. */
  #rulesFor(
    own: readonly ActionRule[] | undefined,
    ids: readonly string[],
    idOf: (id: string) => string,
  ): ActionRule[] {
    const { rules } = this.#init;
    if (!own) return [...rules];
    const denied = rules.filter(({ decision }) => decision === 'deny');
    const here = own.map((rule) =>
      rule.agent !== undefined && ids.includes(rule.agent) ? { ...rule, agent: idOf(rule.agent) } : rule,
    );
    return [...denied, ...here];
  }

  async #end(project: Project): Promise<void> {
    const { lanes } = this.#components;
    const { running } = project;
    project.running = [];
    for (const { agent } of running) agent.leave();
    const open = new Set(lanes.rows.filter(({ closed }) => !closed).map(({ lane }) => lane));
    const own = new Set(running.flatMap((one) => one.lanes).filter((lane) => open.has(lane)));
    await Promise.all([...own].map((lane) => lanes.close(lane)));
  }

  #publish(): void {
    this.#components.node.registry.policy.setProjects({ agents: this.#agents, clients: this.#clients });
  }

  /** Without a decision, those about all contents of the project are forgotten. */
  #remember(folder: string, decided: Pick<Remembered, 'digest' | 'verdict'> | undefined): void {
    const isOver = (one: Remembered) => one.folder === folder && (!decided || one.digest === decided.digest);
    const others = this.#remembered.filter((one) => !isOver(one));
    const at = this.#components.runtime.now();
    this.#remembered = [...others, ...(decided ? [{ folder, ...decided, at }] : [])].slice(-MAX_REMEMBERED);
    this.#save();
  }

  #save(): void {
    const agents = [...this.#agents].map(([id, folder]) => ({ id, folder })).slice(-MAX_REMEMBERED);
    this.#file.save({ version: 1, projects: [...this.#remembered], agents });
  }
}

/** The name of a project in the ids of its agents: stable, and no other project's. */
function slugOf(folder: string): string {
  const name = basename(folder)
    .replace(/[^A-Za-z0-9_-]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, SLUG_CHARS);
  const digest = createHash('sha256').update(folder).digest('hex').slice(0, 4);
  return name === '' ? digest : `${name}-${digest}`;
}
