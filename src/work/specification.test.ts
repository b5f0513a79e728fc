import { describe, expect, it } from 'vitest';
import { buildCard } from '../agent/agent-init.js';
import { createNode, SwarmCoordinator, type SwarmSession, systemRuntime, TaskNegotiator } from '../index.js';

/** The interfaces of the specification, to which the classes of this room are assignable. */
interface SpecTaskProposal {
  proposalId: string;
  taskDescription: string;
  requiredCapabilities: string[];
  estimatedComplexity: 'simple' | 'medium' | 'complex';
  deadlineMs: number;
  proposerAgentId: string;
  status: 'pending' | 'accepted' | 'rejected' | 'timed-out';
  acceptedBy?: string;
  rejectionReason?: string;
  alternativeSuggestion?: string;
  correlationId: string;
}

interface SpecTaskNegotiator {
  propose(proposal: Omit<SpecTaskProposal, 'proposalId' | 'status' | 'correlationId'>): Promise<SpecTaskProposal>;
  accept(proposalId: string, estimatedCompletionMs: number): Promise<void>;
  reject(proposalId: string, reason: string, alternative?: string): Promise<void>;
  getProposal(proposalId: string): SpecTaskProposal | undefined;
  listPending(): SpecTaskProposal[];
  onProposalReceived(handler: (proposal: SpecTaskProposal) => void): () => void;
}

/** The one deviation: lists in a session are read-only, because they belong to the swarm's records and are not copied. */
interface SpecSwarmSession {
  id: string;
  taskDescription: string;
  participants: readonly string[];
  subTasks: readonly SpecSwarmSubTask[];
  status: 'recruiting' | 'active' | 'completing' | 'completed' | 'failed';
  sharedState: Record<string, unknown>;
  createdAt: number;
}

interface SpecSwarmSubTask {
  id: string;
  description: string;
  assignedAgent: string;
  requiredCapabilities: readonly string[];
  status: 'pending' | 'running' | 'completed' | 'failed';
  result?: unknown;
}

interface SpecSwarmCoordinator {
  createSwarm(taskDescription: string, requiredCapabilities: string[]): Promise<SpecSwarmSession>;
  joinSwarm(swarmId: string, agentId: string): Promise<void>;
  completeSubTask(swarmId: string, subTaskId: string, result: unknown): Promise<void>;
  failSubTask(swarmId: string, subTaskId: string, error: string): Promise<void>;
  getSwarm(swarmId: string): SpecSwarmSession | undefined;
  listActiveSwarms(): SpecSwarmSession[];
}

const TERMS = {
  taskDescription: 'count',
  requiredCapabilities: [],
  estimatedComplexity: 'simple' as const,
  deadlineMs: 5_000,
};

describe('the classes that the specification names', () => {
  it('make a TaskNegotiator of the package’s parts negotiate with its signatures', async () => {
    const runtime = systemRuntime();
    const node = await createNode({ runtime });
    const { registry, router, threads, observability, envelopes, key } = node;
    const negotiatorOf = (id: string) => {
      registry.register(buildCard({ id }, runtime.now()));
      const negotiator = new TaskNegotiator({
        runtime,
        registry,
        router,
        threads,
        observability,
        sender: {
          agentId: id,
          address: `${id}@${key}`,
          route: (to, type, payload, { thread = '' } = {}) =>
            router.route(envelopes.create({ sender: id, recipient: String(to), type, payload, correlationId: thread })),
        },
      });
      router.onReceive(id, (envelope) => void negotiator.take(envelope));
      return negotiator;
    };
    const asker = negotiatorOf('asker');
    const worker: SpecTaskNegotiator = negotiatorOf('worker');
    const received: SpecTaskProposal[] = [];
    worker.onProposalReceived((proposal) => received.push(proposal));
    const { proposalId } = await asker.propose({ ...TERMS, to: 'worker', proposerAgentId: 'asker' });
    await expect.poll(() => received.map((proposal) => proposal.proposalId)).toEqual([proposalId]);
    await worker.accept(proposalId, 100);
    await expect.poll(() => asker.getProposal(proposalId)).toMatchObject({ status: 'accepted', acceptedBy: 'worker' });
    expect(asker.listPending()).toEqual([]);
    await node.stop();
  });

  it('make a SwarmCoordinator of the package’s parts answer with its signatures', async () => {
    const runtime = systemRuntime();
    const node = await createNode({ runtime });
    const agent = node.agent({ id: 'sun' });
    const coordinator: SpecSwarmCoordinator = new SwarmCoordinator({
      runtime,
      registry: node.registry,
      agent: {
        agentId: 'sun',
        address: agent.address,
        capabilities: () => [],
        load: () => 0,
        work: () => undefined,
        propose: (init) => agent.propose(init),
        ask: (to, payload, timeoutMs) => agent.request(to, payload, { timeoutMs }),
      },
      send: () => {},
      openDocument: (name) => agent.state(name),
    });
    await expect(coordinator.createSwarm('build', ['none'])).rejects.toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
    expect(coordinator.listActiveSwarms()).toEqual([]);
    const sessions: SwarmSession[] = agent.swarms.listActiveSwarms();
    expect(sessions).toEqual([]);
    expect(agent.swarms).toBeInstanceOf(SwarmCoordinator);
    await node.stop();
  });
});
