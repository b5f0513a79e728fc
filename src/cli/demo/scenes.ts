import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WaitingItem } from '../../http/dashboard/facts.js';
import type { Config } from '../../node/config/schema.js';
import type { SwarmDetail } from '../../node/control/rows.js';
import type { ToolReport } from '../../roster/tools/tool-report.js';
import { wait, within } from '../../runtime/async.js';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { DemoNode } from './demo-nodes.js';
import { FAULTS, type Sample, TEST_FILES } from './sample.js';

/** For each wait of the demo; a busy machine may need long. */
const DEFAULT_LIMIT_MS = 45_000;
const POLL_MS = 50;

const PLAN = `name: fix-the-shop
tasks:
  - id: secrets
    description: Look for keys and passwords.
    capabilities: [security.review]
    input: { workspace: . }
  - id: imports
    description: Follow the imports.
    agent: jupiter
    input: { workspace: ., tool: imports }
  - id: fix
    description: The total ignores quantities. Fix prices.mjs.
    agent: mars
  - id: check
    description: Run prices.test.mjs.
    capabilities: [testing.unit]
    dependsOn: [fix]
  - id: report
    description: Write one report of what was found.
    agent: uranus
    dependsOn: [secrets, imports]
    input: { tool: summary }
`;

const MEMO = 'The shop is fixed. Tell accounting.';

export interface SceneComponents {
  readonly runtime: Runtime;
  readonly folder: string;
  readonly sample: Sample;
  readonly bootstrap: string;
  /** How long each wait may take. */
  readonly limitMs?: number;
  /** Shows one line of what happens. */
  readonly say: (line: string) => void;
}

/** What was seen, in the order of the scenes. */
export interface Seen {
  readonly scene: string;
  readonly facts: readonly string[];
}

interface Scene {
  readonly title: string;
  /** Resolves with what was seen. */
  perform(): Promise<string[]>;
}

/** Three devices and what happens on them. Each scene waits for what it shows, and throws if that does not happen. */
export class DemoScenes {
  readonly laptop: DemoNode;
  readonly #desktop: DemoNode;
  readonly #server: DemoNode;
  readonly #components: SceneComponents;
  #review = '';

  constructor(components: SceneComponents) {
    this.#components = components;
    const { folder, bootstrap, sample } = components;
    const program = (name: Parameters<Sample['program']>[0]) => ({
      command: process.execPath,
      args: [sample.program(name)],
      cwd: sample.shop,
    });
    const start = (name: string, agents: Config['agents'], more: Config = {}) =>
      new DemoNode(name, folder, bootstrap, { roster: false, agents, sandbox: { enforced: true }, ...more });
    this.laptop = start('laptop', { sun: {}, earth: {}, intern: { sandbox: 'lab' } });
    this.#desktop = start('desktop', {
      mars: { acp: program('fixer') },
      saturn: { capabilities: ['testing.unit'], exec: program('test') },
      atlas: { exec: { ...program('note'), cwd: folder } },
    });
    const tester = { capabilities: ['testing.unit'], exec: program('test') };
    // These three work by the tools of the roster.
    const tools = { enceladus: {}, jupiter: {}, uranus: {} };
    this.#server = start('server', { ...tools, titan: tester }, { workspaces: [sample.shop] });
  }

  /** The scenes, in their order. */
  get all(): readonly Scene[] {
    return [
      { title: 'Three devices meet', perform: () => this.#meet() },
      { title: 'A plan waits for its owner', perform: () => this.#plan() },
      { title: 'A device fails while it works', perform: () => this.#swarm() },
      { title: 'A message for a device that is off', perform: () => this.#mail() },
      { title: 'What the rules refuse', perform: () => this.#rules() },
    ];
  }

  /** The report that the plan made, in Markdown. */
  get review(): string {
    return this.#review;
  }

  get nodes(): readonly DemoNode[] {
    return [this.laptop, this.#desktop, this.#server];
  }

  /** Three processes, each with agents of its own, become one mesh. */
  async #meet(): Promise<string[]> {
    const { laptop } = this;
    await Promise.all(this.nodes.map((node) => node.start()));
    for (const node of [this.#desktop, this.#server]) {
      const { code } = await laptop.call('invite', { owner: true });
      await node.call('join', { code });
      this.#say(`${node.name} joined with a one-time code`);
    }
    const ready = ['mars', 'saturn', 'atlas', 'titan'];
    const tools = ['enceladus', 'jupiter', 'uranus'];
    await this.#until('the agents of all devices are known and ready', async () => {
      const rows = await laptop.call('agents', {});
      const are = (ids: readonly string[], state: string) =>
        ids.every((id) => rows.some((row) => row.id === id && row.state === state));
      return are(ready, 'ready') && are(tools, 'tools');
    });
    for (const node of this.nodes) {
      await this.#until(`${node.name} has links to both others`, async () => {
        const peers = await node.call('peers');
        return peers.filter(({ state }) => state === 'connected').length === 2;
      });
    }
    const links = (await laptop.call('peers')).map(({ name, link }) => `${name} over ${link}`);
    return [
      `the laptop is connected to ${links.join(' and ')}`,
      `it sees ${ready.length + tools.length} agents of the other two`,
    ];
  }

  /** A plan whose second task needs the owner, who is at another device. */
  async #plan(): Promise<string[]> {
    const { laptop } = this;
    const { shop } = this.#components.sample;
    const before = readFileSync(join(shop, 'prices.mjs'), 'utf8');
    const { id } = await laptop.call('run.start', { text: PLAN, file: join(this.#components.folder, 'plan.yaml') });
    this.#say('the plan begins: secrets, imports, fix, check, report');
    const item = await this.#until('the change waits for the owner', async () => {
      const { items } = await laptop.call('waiting', {});
      return items.find(({ kind }) => kind === 'approval');
    });
    const where = `on the desktop, ${item.title}; the question waits at the laptop`;
    this.#say(where);
    for (const line of changedLines(item)) this.#say(`    ${line}`);
    if (readFileSync(join(shop, 'prices.mjs'), 'utf8') !== before)
      throw notSeen('the file stays as it is until the answer');
    await laptop.call('waiting.answer', { id: item.id, action: 'allow-once' });
    this.#say('the owner allows it');
    const ended = await this.#until('the plan is done', async () => {
      const { status, tasks } = await laptop.call('run', { id });
      return status === 'running' ? undefined : { status, tasks };
    });
    for (const { id: task, by, phase } of ended.tasks) this.#say(`${task}: ${phase}, by ${this.#nameOf(by)}`);
    if (ended.status !== 'done') throw notSeen(`the plan is done, but it is ${ended.status}`);
    const results = await this.#resultsOf(id);
    const found = ['secrets', 'imports'].flatMap((task) => (results[task] as ToolReport).findings);
    for (const fault of FAULTS) {
      if (!found.some(({ rule, file, line }) => rule === fault.rule && file === fault.file && line === fault.line))
        throw notSeen(`the tools find ${fault.rule} in ${fault.file}:${fault.line}`);
    }
    for (const { file, line, message } of found) this.#say(`found: ${file}:${line} ${message}`);
    this.#review = String(results.report);
    return [
      where,
      ...changedLines(item),
      ...ended.tasks.map(({ id: task, by }) => `${task} was done by ${this.#nameOf(by)}`),
      ...found.map(({ file, line, message }) => `${file}:${line}: ${message}`),
    ];
  }

  /** The results of a run, by task. */
  async #resultsOf(id: string): Promise<Record<string, unknown>> {
    const texts = new Map<string, string>();
    await this.laptop.call('run.report', { id }, (piece) => {
      if (piece.event === 'result') texts.set(piece.id, `${texts.get(piece.id) ?? ''}${piece.json}`);
    });
    return Object.fromEntries([...texts].map(([task, json]) => [task, JSON.parse(json)]));
  }

  /** A swarm loses the device that works for it. */
  async #swarm(): Promise<string[]> {
    const { laptop } = this;
    const subTasks = TEST_FILES.map((file, at) => ({
      ...{ id: `test-${at + 1}`, description: `Run ${file}.`, requiredCapabilities: ['testing.unit'] },
    }));
    const { id } = await laptop.call('swarm.start', {
      ...{ task: 'Run all tests of the shop', capabilities: ['testing.unit'], plan: JSON.stringify({ subTasks }) },
      ...{ as: 'sun', leaseMs: 2_000, attempts: 5 },
    });
    const saturn = this.#desktop.agent('saturn');
    const interrupted = await this.#firstTaskOf(saturn, id);
    await this.#desktop.kill();
    this.#say(`the desktop is killed while it works on ${interrupted.id}`);
    const ended = await this.#until('the swarm is done', async () => {
      const detail = await laptop.call('swarm', { id });
      return detail.status === 'completed' || detail.status === 'failed' ? detail : undefined;
    });
    if (ended.status !== 'completed') throw notSeen(`the swarm is done, but it has ${ended.status}: ${ended.reason}`);
    const lines = ended.subTasks.map((row) => `${row.description} ${this.#resultOf(row)}`);
    for (const line of lines) this.#say(line);
    const moved = ended.subTasks.find((row) => row.id === interrupted.id)!;
    return [
      `the desktop was killed while it worked on ${moved.id}, which ${this.#nameOf(moved.assignedAgent)} then did`,
      ...lines,
    ];
  }

  /** The first sub-task of a swarm that an agent works on, as soon as it does. */
  #firstTaskOf(agent: string, swarm: string): Promise<{ readonly id: string }> {
    const { runtime, limitMs = DEFAULT_LIMIT_MS } = this.#components;
    const what = `${this.#nameOf(agent)} works on a test`;
    const found = new Promise<{ readonly id: string }>((resolve, reject) => {
      this.laptop
        .call('swarm.follow', { id: swarm }, (event) => {
          if (event.event !== 'sub-task') return;
          if (event.assignedAgent === agent && event.status === 'running') resolve(event);
        })
        .then(() => reject(notSeen(what)), reject);
    });
    return within(runtime, found, limitMs, () => {
      throw notSeen(what);
    });
  }

  /** A message to a device that is off. */
  async #mail(): Promise<string[]> {
    const { laptop } = this;
    const to = this.#desktop.agent('atlas');
    const { messageId: id } = await laptop.call('send', {
      as: 'sun',
      to,
      payload: MEMO,
      type: 'request',
      durable: true,
    });
    if (id === undefined) throw notSeen('a durable message has an id');
    const stored = await laptop.call('receipt', { id });
    if (stored.over) throw notSeen(`the message waits for the desktop, but it is ${stored.state}`);
    this.#say(`a durable message for atlas: ${stored.state}; the desktop is off`);
    await this.#desktop.start();
    this.#say('the desktop is on again');
    const receipt = await this.#until('the message is done', async () => {
      const found = await laptop.call('receipt', { id });
      return found.over ? found : undefined;
    });
    const notes = readFileSync(join(this.#components.folder, 'notes.txt'), 'utf8').trim().split('\n');
    if (notes.length !== 1) throw notSeen(`atlas wrote the message down once, but ${notes.length} times`);
    this.#say(`the message is ${receipt.state}; atlas wrote it down once`);
    return [`the message waited (${stored.state}) until the desktop was on again: ${receipt.state}, once`];
  }

  /** What the rules refuse. */
  async #rules(): Promise<string[]> {
    const refused = async (as: string, to: string, code: string, what: string) => {
      const error = await this.laptop.call('send', { as, to, payload: 'do this' }).then(
        () => undefined,
        (thrown) => toEclipticError(thrown, 'HANDLER_FAILED'),
      );
      if (error?.code !== code)
        throw notSeen(`${what} is refused with ${code}, but it was ${error?.code ?? 'delivered'}`);
      this.#say(`${what}: refused, ${code}`);
      return `${what} was refused: ${code}`;
    };
    return [
      await refused('earth', this.#server.agent('titan'), 'TIER_VIOLATION', 'an order from earth (L1) to titan (L2)'),
      await refused(
        'intern',
        this.#server.agent('uranus'),
        'SANDBOX_VIOLATION',
        'a message from intern out of the sandbox "lab"',
      ),
    ];
  }

  async end(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }

  #say(line: string): void {
    this.#components.say(line);
  }

  /** An agent's id and the name of its node. */
  #nameOf(address: string | null): string {
    const [id, key] = (address ?? 'no agent').split('@');
    const node = this.nodes.find((one) => one.key === key);
    return node ? `${id} on the ${node.name}` : `${id} on the laptop`;
  }

  #resultOf({ result, assignedAgent, attempts }: SwarmDetail['subTasks'][number]): string {
    const { passed, failed } = result as { passed: number; failed: number };
    const again = attempts > 1 ? `, at attempt ${attempts}` : '';
    return `${passed} passed, ${failed} failed, by ${this.#nameOf(assignedAgent)}${again}`;
  }

  async #until<T>(what: string, find: () => Promise<T | undefined | false>): Promise<T> {
    const { runtime, limitMs = DEFAULT_LIMIT_MS } = this.#components;
    for (const deadline = runtime.now() + limitMs; runtime.now() < deadline; await wait(runtime, POLL_MS)) {
      const found = await find();
      if (found !== undefined && found !== false) return found;
    }
    throw notSeen(what);
  }
}

function changedLines({ diff }: WaitingItem): string[] {
  return diff.filter((line) => /^[+-](?![+-])/.test(line));
}

export function notSeen(what: string): EclipticError {
  return new EclipticError('DEMO_FAILED', `the demo did not see this: ${what}`);
}
