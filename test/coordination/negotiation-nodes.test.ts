import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { MemoryRendezvous } from '../../src/network/discovery/memory-discovery.js';
import { linkInProcess } from '../../src/network/links/memory-network.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import { openStore } from '../../src/node/tables.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import type { ReceivedProposal } from '../../src/work/proposals/proposal.js';
import { Nodes } from '../nodes-fixture.js';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

describe('a negotiation between two nodes', () => {
  it('goes from proposal to result in one thread, which is the same on both nodes [R7.5]', async () => {
    const world = new Nodes();
    const [here, there] = await world.startMesh(2);
    // L1 may open nothing towards L2: its answers, its progress and its result are replies.
    const asker = here!.agent({ id: 'asker', tier: 2 });
    const worker = there!.agent({ id: 'worker', tier: 1, capabilities: ['build'] });
    there!.agent({ id: 'helper', tier: 3 });
    worker.onProposal(async (received) => {
      if (received.input === 'no') return received.reject('busy', { alternative: 'helper' });
      const engagement = await received.accept({ estimatedCompletionMs: 5 });
      engagement.progress('half');
      return engagement.complete({ built: received.input });
    });
    await world.until(() => here!.registry.findByCapability('build').length === 1);
    const terms = { taskDescription: 'x', requiredCapabilities: ['build'], justification: 'it burns' };
    const negotiation = asker.propose({ ...terms, input: 'a house' });
    const heard: unknown[] = [];
    negotiation.onProgress((value) => heard.push(value));
    expect(await world.settled(negotiation.result)).toEqual({ built: 'a house' });
    expect(heard).toEqual(['half']);
    expect(negotiation.proposal).toMatchObject({ status: 'accepted', acceptedBy: `worker@${there!.key}` });
    const thread = negotiation.proposal.correlationId;
    const types = ['task-proposal', 'task-accept', 'notification', 'stream-data', 'response'];
    for (const node of [here!, there!]) expect(node.threads.get(thread).map(({ type }) => type)).toEqual(types);
    const declined = asker.propose({ ...terms, to: `worker@${there!.key}`, input: 'no' });
    expect(await world.settled(declined.answered)).toMatchObject({
      status: 'rejected',
      rejectionReason: 'busy',
      alternativeSuggestion: `helper@${there!.key}`,
    });
    await here!.stop();
    await there!.stop();
  });

  it('ends for one side when the other does not come back', async () => {
    const world = new Nodes();
    const [here, there] = await world.startMesh(2);
    const asker = here!.agent({ id: 'asker', tier: 3 });
    const received: ReceivedProposal[] = [];
    const signals: AbortSignal[] = [];
    there!.agent({ id: 'worker', tier: 3, capabilities: ['build'] }).onProposal(async (proposal) => {
      received.push(proposal);
      signals.push((await proposal.accept()).signal);
    });
    await world.until(() => here!.registry.findByCapability('build').length === 1);
    const negotiation = asker.propose({ taskDescription: 'x', requiredCapabilities: ['build'] });
    await world.settled(negotiation.answered);
    await world.until(() => signals.length === 1);
    const { result } = negotiation;
    await there!.stop();
    await expect(world.settled(result)).rejects.toMatchObject({ details: { proposalId: expect.any(String) } });
    const back = await world.start();
    await world.join(back, here!);
    const engaged: AbortSignal[] = [];
    back.agent({ id: 'second', tier: 3, capabilities: ['test'] }).onProposal(async (proposal) => {
      engaged.push((await proposal.accept()).signal);
    });
    await world.until(() => here!.registry.findByCapability('test').length === 1);
    const orphan = asker.propose({ taskDescription: 'x', requiredCapabilities: ['test'] });
    await world.until(() => engaged.length === 1);
    await here!.stop();
    await world.until(() => engaged[0]!.aborted, 300_000);
    expect(orphan.proposal.status).toBe('accepted');
    await back.stop();
  });
});

describe('a durable negotiation, stored on disk', () => {
  it('survives a restart of either side at each stage, and both sides agree', { timeout: 120_000 }, async () => {
    const world = new Pair();
    let runs = 0;
    const resumed: boolean[] = [];
    let finish = false;
    world.setUp = () => {
      world.there!.agentById('worker').onProposal(async (received) => {
        resumed.push(received.resumed);
        if (!world.answers) return;
        const engagement = await received.accept({ estimatedCompletionMs: 1 });
        runs++;
        if (finish) await engagement.complete('built');
      });
    };
    await world.start();
    const first = world.asker.propose({
      to: `worker@${world.there!.key}`,
      taskDescription: 'x',
      deadlineMs: 60_000,
      durable: true,
    });
    await first.sent;
    const { proposalId } = first.proposal;
    const view = () => world.asker.negotiations.find(({ proposal }) => proposal.proposalId === proposalId)!;
    await until(() => resumed.length === 1);

    // Both restart before an answer; then it is accepted.
    world.answers = true;
    await world.restart('here');
    await world.restart('there');
    expect((await view().answered).status).toBe('accepted');
    await until(() => runs > 0);
    expect(resumed).toEqual([false, true]);

    // The worker's node restarts in the middle of the work: it is given to the handler again, as accepted.
    await world.restart('there');
    await until(() => runs === 2);
    // The proposer's node is away when the work is done, and hears of the result when it comes back.
    await world.stop('here');
    finish = true;
    await world.restart('there');
    await until(() => runs === 3);
    await world.begin('here');
    expect(await view().result).toBe('built');
    expect(world.there!.agentById('worker').negotiator.getProposal(proposalId)?.status).toBe('accepted');

    // It is over: no restart brings it up again.
    await world.restart('there');
    await world.restart('here');
    expect(view().proposal.status).toBe('accepted');
    expect(await view().result).toBe('built');
    expect(runs).toBe(3);
  });

  it('times out while its proposer is away, and the addressee learns of it', { timeout: 60_000 }, async () => {
    const world = new Pair();
    const received: ReceivedProposal[] = [];
    world.setUp = () => {
      world.there!.agentById('worker').onProposal((proposal) => void received.push(proposal));
    };
    await world.start();
    const to = `worker@${world.there!.key}`;
    const runtime = systemRuntime();
    const madeAt = runtime.now();
    const negotiation = world.asker.propose({ to, taskDescription: 'x', deadlineMs: 700, durable: true });
    const { proposalId } = negotiation.proposal;
    await until(() => received.length === 1);
    await world.stop('here');
    await until(() => runtime.now() > madeAt + 720);
    await world.begin('here');
    const [again] = world.asker.negotiations;
    expect(await again!.answered).toMatchObject({ proposalId, status: 'timed-out' });
    await until(() => received[0]!.proposal.status === 'timed-out');
    await expect(received[0]!.accept()).rejects.toMatchObject({ code: 'PROPOSAL_TIMEOUT' });
  });

  it('to an unknown agent is refused at once', async () => {
    const world = new Pair();
    await world.start();
    const lost = world.asker.propose({ to: 'nobody', taskDescription: 'x', durable: true });
    await expect(lost.answered).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
  });
});

type Place = 'here' | 'there';

/** Two nodes with data folders on the machine's own clock, with an asker and a worker, that can be stopped and begun again. */
class Pair {
  readonly #meetings: MemoryRendezvous;
  readonly #folders: Record<Place, string>;
  here: EclipticNode | undefined;
  there: EclipticNode | undefined;
  answers = false;
  /** Gives the worker its handlers, each time it begins. */
  setUp: () => void = () => {};

  constructor() {
    const runtime = systemRuntime();
    this.#meetings = new MemoryRendezvous(runtime, (caller, called) => linkInProcess(runtime, caller, called));
    const folder = () => {
      const path = mkdtempSync(join(tmpdir(), 'ecliptic-'));
      cleanups.push(() => rmSync(path, { recursive: true, force: true }));
      return path;
    };
    this.#folders = { here: folder(), there: folder() };
    cleanups.push(async () => {
      await this.stop('here');
      await this.stop('there');
    });
  }

  get asker() {
    return this.here!.agentById('asker');
  }

  async start(): Promise<void> {
    await this.begin('here');
    await this.begin('there');
    const { code } = await this.here!.network!.invite();
    await this.there!.network!.join(code);
    await until(
      () => this.here!.registry.getRemoteCards().length > 0 && this.there!.registry.getRemoteCards().length > 0,
    );
  }

  async begin(place: Place): Promise<void> {
    const folder = this.#folders[place];
    const store = await openStore(folder);
    const node = await createNode({ store, network: { folder, discovery: this.#meetings.join } });
    this[place] = node;
    node.agent({ id: place === 'here' ? 'asker' : 'worker', tier: 3 });
    if (place === 'there') this.setUp();
  }

  async stop(place: Place): Promise<void> {
    await this[place]?.stop();
    this[place] = undefined;
  }

  async restart(place: Place): Promise<void> {
    await this.stop(place);
    await this.begin(place);
  }
}

async function until(condition: () => boolean): Promise<void> {
  for (let round = 0; round < 3_000; round++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`not in time: ${condition}`);
}
