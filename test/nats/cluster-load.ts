import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { RoutingResult } from '../../src/mesh/schemas.js';
import type { SwarmDetail, SwarmRow } from '../../src/node/control/rows.js';
import type { Ledger } from '../durable/agents/ledger.js';
import type { Flight, Memory, Progress } from '../nodes/agents/witness.js';
import { type Cluster, type ProcessNode, until } from '../nodes/cluster.js';
import { connectRaw, type RawClient } from '../raw-client.js';

const EVERY_MS = 25;
const HOLD_MS = 20;
const PATHS = 3;
const SUB_TASKS = 6;
/** A lease that was held for longer may have been lost meanwhile. */
const LEASE_SURE_MS = 5_000;
const EMPTY: Ledger = { count: 0, last: 0, gaps: [], wrong: [], redelivered: 0 };

/** Durable mail from one node's ledger to another's, numbered from 1; the other node echoes each. */
export class MailLoad {
  readonly #from: ProcessNode;
  readonly #to: ProcessNode;
  readonly #echo: boolean;
  readonly #everyMs: number;
  #isOver = false;
  #running: Promise<void> = Promise.resolve();
  sent = 0;
  lastId = '';

  constructor(from: ProcessNode, to: ProcessNode, { echo = true, everyMs = EVERY_MS } = {}) {
    this.#from = from;
    this.#to = to;
    this.#echo = echo;
    this.#everyMs = everyMs;
  }

  begin(): void {
    this.#running = this.#run();
    // `end` reports it.
    this.#running.catch(() => {});
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    const to = `ledger@${this.#to.key}`;
    while (!this.#isOver) {
      const payload = { n: this.sent + 1, echo: this.#echo };
      const { stored, messageId } = await this.#from.call<RoutingResult>('send', {
        as: 'ledger',
        to,
        payload,
        durable: true,
      });
      expect(stored).toBe(true);
      this.lastId = messageId!;
      this.sent++;
      await delay(this.#everyMs);
    }
  }

  /** Something that is sent from now on arrives, and its echo too. */
  async flows(): Promise<void> {
    const from = this.sent;
    const last = async () => (await ledgerOf(this.#from, this.#to)).last;
    await until(async () => (await last()) > from, `mail of ${this.#from.name} to ${this.#to.name} flows`);
  }

  /** The last message is with the broker, or was delivered. */
  async relayed(): Promise<void> {
    const id = this.lastId;
    const states = async () => {
      const { story } = await this.#from.call<{ story: { state: string }[] }>('receipt', { id });
      return story.map(({ state }) => state);
    };
    await until(async () => (await states()).includes('relayed'), `mail of ${this.#from.name} is relayed`);
  }

  /** Everything that was sent so far is handled: a recipient that stays behind would refuse what is beyond the sender's share. */
  async handled(): Promise<void> {
    const { sent } = this;
    const last = async () => (await ledgerOf(this.#to, this.#from)).last;
    await until(async () => (await last()) >= sent, `mail of ${this.#from.name} is handled at ${this.#to.name}`);
  }

  /** Every acknowledged message was handled once and in order, and so was every echo. */
  async exact(): Promise<void> {
    const ends = [{ at: this.#to, from: this.#from }, ...(this.#echo ? [{ at: this.#from, from: this.#to }] : [])];
    for (const { at, from } of ends) {
      const ledger = () => ledgerOf(at, from);
      await until(async () => (await ledger()).last >= this.sent, `all mail of ${from.name} is at ${at.name}`);
      expect(await ledger()).toMatchObject({ count: this.sent, last: this.sent, gaps: [], wrong: [] });
    }
  }
}

async function ledgerOf(at: ProcessNode, from: ProcessNode): Promise<Ledger> {
  return (await at.request<Ledger | null>('ledger', 'ledger', `ledger@${from.key}`)) ?? EMPTY;
}

/** Members on several nodes that take and release the same paths. */
export class LeaseLoad {
  readonly faults: string[] = [];
  readonly #holdMs: number;
  readonly #held = new Map<string, { holder: string; since: number }>();
  readonly #tokens = new Map<string, { token: number; holder: string }>();
  readonly #clients: RawClient[] = [];
  #isOver = false;
  #running: Promise<unknown> = Promise.resolve();
  grants = 0;

  private constructor(holdMs: number) {
    this.#holdMs = holdMs;
  }

  static async begin(nodes: readonly ProcessNode[], checkout: string, { holdMs = HOLD_MS } = {}): Promise<LeaseLoad> {
    const load = new LeaseLoad(holdMs);
    const calls = await Promise.all(nodes.map((node) => load.#attach(node, checkout)));
    load.#running = Promise.all(calls.map((call, at) => load.#compete(nodes[at]!.name, call)));
    return load;
  }

  async flows(): Promise<void> {
    const from = this.grants;
    await until(() => this.grants > from + 5, 'leases are granted');
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
    for (const client of this.#clients) client.close();
  }

  async #attach(node: ProcessNode, checkout: string) {
    const client = await connectRaw(node.ready.control);
    this.#clients.push(client);
    const session = `member of ${node.name}`;
    await new Promise<void>((resolve, reject) => {
      const about = { session, as: `m-${node.name}`, client: 'scripted', checkout, wake: null };
      client.call('onramp.attach', about, () => resolve()).catch(reject);
    });
    let number = 0;
    return async (args: object) => {
      const call = { session, tool: 'mesh_lease', arguments: args, number: ++number };
      return (await client.call<{ text: string }>('onramp.call', call)).text;
    };
  }

  async #compete(holder: string, call: (args: object) => Promise<string>): Promise<void> {
    while (!this.#isOver) {
      const path = `f${Math.floor(Math.random() * PATHS)}`;
      const asked = performance.now();
      const text = await call({ action: 'take', paths: [path] });
      const token = Number(/, token (\d+)/.exec(text)?.[1] ?? 0);
      if (token > 0) this.#granted(path, holder, token, asked);
      await delay(this.#holdMs * Math.random());
      this.#held.delete(path);
      if (!text.startsWith('Nothing was taken')) await call({ action: 'release', paths: [path] });
      await delay(this.#holdMs * Math.random());
    }
  }

  #granted(path: string, holder: string, token: number, asked: number): void {
    const now = performance.now();
    const other = this.#held.get(path);
    if (other && now - other.since < LEASE_SURE_MS)
      this.faults.push(`${other.holder} holds ${path}, and ${holder} got it with token ${token}`);
    const before = this.#tokens.get(path);
    const grows = !before || (before.holder === holder ? token >= before.token : token > before.token);
    if (!grows) this.faults.push(`${holder} got ${path} with token ${token} after ${JSON.stringify(before)}`);
    this.#tokens.set(path, { token, holder });
    this.#held.set(path, { holder, since: asked });
    this.grants++;
  }
}

/** A swarm of six sub-tasks, and its end. */
export class SwarmLoad {
  readonly #nodes: readonly ProcessNode[];
  readonly #id: string;

  private constructor(nodes: readonly ProcessNode[], id: string) {
    this.#nodes = nodes;
    this.#id = id;
  }

  static async start(nodes: readonly ProcessNode[]): Promise<SwarmLoad> {
    const subTasks = Array.from({ length: SUB_TASKS }, (_, at) => ({
      id: `t${at}`,
      requiredCapabilities: ['work'],
      dependsOn: at < 2 ? [] : [`t${at - 2}`],
    }));
    const plan = JSON.stringify({ subTasks });
    const about = { as: 'asker', task: 'everything', capabilities: ['work'], plan, leaseMs: 3_000, attempts: 8 };
    const { id } = await nodes[0]!.call<SwarmRow>('swarm.start', about);
    return new SwarmLoad(nodes, id);
  }

  /** It completes, and all nodes that take part have the same result of each sub-task. */
  async exact(): Promise<void> {
    const [first, ...others] = this.#nodes;
    const { status, reason, counts, subTasks } = await this.#over(first!);
    expect({ status, reason, counts }).toMatchObject({
      status: 'completed',
      reason: null,
      counts: { completed: SUB_TASKS },
    });
    for (const node of others) {
      if (!(await this.#seenBy(node))) continue;
      const theirs = await this.#over(node);
      expect(theirs.status).toBe('completed');
      expect(results(theirs)).toEqual(results({ subTasks }));
    }
  }

  #seenBy(node: ProcessNode): Promise<SwarmDetail | undefined> {
    return node.call<SwarmDetail>('swarm', { id: this.#id }).catch(() => undefined);
  }

  #over(node: ProcessNode): Promise<SwarmDetail> {
    return until(async () => {
      const detail = await this.#seenBy(node);
      if (!detail || (detail.status !== 'completed' && detail.status !== 'failed')) return undefined;
      const isWhole = detail.subTasks.every(({ status, result }) => status !== 'completed' || result !== undefined);
      return isWhole ? detail : undefined;
    }, `${node.name} knows how swarm ${this.#id} ended`);
  }
}

function results({ subTasks }: Pick<SwarmDetail, 'subTasks'>) {
  return subTasks.map(({ id, result }) => [id, result]);
}

/** A checkout in which members take leases. */
export function repository({ folder }: Cluster): string {
  const root = join(folder, 'checkout');
  mkdirSync(root);
  writeFileSync(join(root, 'a.txt'), 'a');
  const author = ['-c', 'user.name=n', '-c', 'user.email=e@example.com', '-c', 'init.defaultBranch=main'];
  for (const words of [['init'], ['add', '.'], ['commit', '-m', 'first']])
    execFileSync('git', [...author, '-C', root, ...words], { stdio: 'ignore' });
  execFileSync('git', ['-C', root, 'remote', 'add', 'origin', 'git@example.com:team/it.git']);
  return root;
}

/** Messages that a witness sends from now on are delivered. */
export async function channelFlows(node: ProcessNode): Promise<void> {
  const report = () => node.request<Progress>('asker', 'witness', { do: 'report' });
  const { sent } = await report();
  await until(async () => (await report()).delivered >= sent, 'messages flow');
}

/**
 * Every message that the channel took came once and in order. A long interruption may fill the channel's send queue, which
 * then refuses messages. A notification that was refused or is uncertain may be missing.
 */
export async function channelExact(from: ProcessNode, to: ProcessNode): Promise<void> {
  const flight = await from.request<Flight>('asker', 'witness', { do: 'finish' }, 90_000);
  const memory = await to.request<Memory>('asker', 'witness', { do: 'recall' });
  expect(flight.statuses).not.toContain('closed');
  expect(flight.channelled.filter((outcome) => outcome !== 'delivered' && outcome !== 'QUEUE_FULL')).toEqual([]);
  const taken = flight.channelled.flatMap((outcome, number) => (outcome === 'delivered' ? [number] : []));
  expect(memory.channelled).toEqual(taken);
  const delivered = flight.sent.flatMap((outcome, number) => (outcome === 'delivered' ? [number] : []));
  expect(memory.notified.filter((number) => flight.sent[number as number] === 'delivered')).toEqual(delivered);
  expect(new Set(memory.notified).size).toBe(memory.notified.length);
}
