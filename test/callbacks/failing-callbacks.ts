import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AgentProcesses } from '../../src/a2a/server/process-manager.js';
import { TASK } from '../../src/agent/task-messages.js';
import {
  A2AObservability,
  AgentRegistry,
  CRDTSyncChannel,
  createNode,
  MemoryStore,
  type ProviderAdapter,
  RalphLoop,
  systemRuntime,
} from '../../src/index.js';
import type { Logger } from '../../src/mesh.js';
import { Approvals, Children, CommandAdapter, Lanes, MemoryWatch } from '../../src/providers.js';

/**
 * A program that embeds Ecliptic and whose every callback fails: by throwing, or with a rejected promise, as the
 * argument says. It prints which callbacks were called and everything that was reported, and ends with 0 if nothing
 * ended it before.
 */
const mode = process.argv[2] as 'throw' | 'reject';
const called = new Set<string>();
const reports: string[] = [];

/** The callback of that name. */
function bad(name: string): () => never {
  return (() => {
    called.add(name);
    const error = new Error(`callback ${name}.`);
    if (mode === 'throw') throw error;
    return Promise.reject(error);
  }) as () => never;
}

const note = (fields: Record<string, unknown>) => reports.push(String((fields.err as Error)?.message ?? ''));
const logger: Logger = { debug: () => {}, info: () => {}, warn: note, error: note };
process.on('warning', ({ message }) => reports.push(message));
/** A failure that the caller is told of is reported too. */
const told = (error: unknown) => void reports.push((error as Error).message);
const once = (condition: () => boolean) =>
  new Promise<void>((resolve) => {
    const look = () => (condition() ? resolve() : setTimeout(look, 5));
    look();
  });
const whenCalled = (...names: string[]) => once(() => names.every((name) => called.has(name)));

const runtime = systemRuntime({ logger });
const store = new MemoryStore();
const node = await createNode({ runtime, store });
node.observability.subscribe(({ reason }) => void reports.push(reason ?? ''));
const folder = mkdtempSync(join(tmpdir(), 'ecliptic-callbacks-'));
const sun = node.agent({ id: 'sun', tier: 0 });

const scenarios: Record<string, () => unknown> = {
  registry: async () => {
    const stop = [
      node.registry.onCard(bad('AgentRegistry.onCard')),
      node.registry.onLocalChange(bad('AgentRegistry.onLocalChange')),
    ];
    node.agent({ id: 'newcomer' });
    for (const end of stop) end();
    const alone = new AgentRegistry();
    alone.onCard(bad('AgentRegistry.onCard'));
    alone.register(node.registry.getById('newcomer')!);
  },

  handlers: async () => {
    const worst = node
      .agent({ id: 'worst' })
      .onRequest(bad('Agent.onRequest'))
      .onNotification(bad('Agent.onNotification'))
      .onStream(bad('Agent.onStream'))
      .onMessage(bad('Agent.onMessage'))
      .onProposal(bad('Agent.onProposal'));
    worst.onChannel(bad('Agent.onChannel'));
    await sun.request('worst', 1).catch(told);
    await sun.send('worst', 1);
    await sun.send('worst', 1, { type: 'error' });
    void sun.sendStream('worst', [1]).catch(told);
    await sun.openChannel('worst').catch(told);
    await sun.propose({ to: 'worst', taskDescription: 'x' }).answered.catch(told);
    node.agent({ id: 'tasked' }).onTask(bad('Agent.onTask'));
    await sun.propose({ to: 'tasked', taskDescription: 'x' }).result.catch(told);
    node.agent({ id: 'typed' }).onTypedTask({}, bad('Agent.onTypedTask'));
    await sun.propose({ to: 'typed', taskDescription: 'x', input: 1 }).result.catch(told);
    const card = { ...node.registry.getById('worst')!, id: 'bare' };
    node.registry.register(card);
    node.router.onReceive('bare', bad('A2ARouter.onReceive'));
    await sun.send('bare', 1);
    await whenCalled('Agent.onStream', 'A2ARouter.onReceive');
  },

  channels: async () => {
    const other = node.agent({ id: 'other' });
    node.channels.onChannel('other', bad('ChannelManager.onChannel'));
    await sun.openChannel('other').catch(told);
    other.onChannel((channel) => {
      channel.onMessage(bad('A2AChannel.onMessage'));
      return true;
    });
    const channel = await sun.openChannel('other');
    channel.onStatus(bad('A2AChannel.onStatus'));
    const payload = 1;
    await channel.send(node.envelopes.create({ sender: 'sun', recipient: 'other', type: 'notification', payload }));
    await channel.close();
  },

  events: async () => {
    node.agent({ id: 'listener', tier: 0 }).onMessage(() => {});
    node.agent({ id: 'lower', tier: 2 }).onMessage(() => {});
    const stop = [
      node.observability.subscribe(bad('A2AObservability.subscribe')),
      node.observability.subscribeToUnusual(bad('A2AObservability.subscribeToUnusual')),
      node.observability.subscribeWithPayload(bad('A2AObservability.subscribeWithPayload')),
    ];
    await sun.send('listener', 1);
    await sun.send('lower', 1);
    for (const end of stop) end();
    const alone = new A2AObservability();
    alone.subscribe(bad('A2AObservability.subscribe'));
    alone.emit({ type: 'error', timestamp: 1 });
    await once(() => alone.getRecentEvents().length > 1);
    if (alone.getMetrics().errorCount !== 2) throw new Error('the failing subscriber was not counted');
  },

  negotiation: async () => {
    const offered = node.agent({ id: 'offered', capabilities: ['offered'] });
    offered.negotiator.onProposalReceived(bad('TaskNegotiator.onProposalReceived'));
    const ignored = sun.propose({ to: 'offered', taskDescription: 'x' });
    await whenCalled('TaskNegotiator.onProposalReceived');
    ignored.withdraw();
    node.agent({ id: 'slow', capabilities: ['slow'] }).onProposal(async (proposal) => {
      const work = await proposal.accept();
      work.progress(1);
      await work.complete(1);
    });
    for (const negotiation of [
      sun.propose({ to: 'slow', taskDescription: 'x' }),
      sun.proposeToAll({ requiredCapabilities: ['slow'], taskDescription: 'x' }),
    ]) {
      negotiation.onProgress(bad('Negotiation.onProgress'));
      await negotiation.result;
    }
  },

  documents: async () => {
    const here = sun.state('plan');
    here.onChange(bad('SharedDocument.onChange'));
    here.onUpdate(bad('SharedDocument.onUpdate'));
    here.onMember(bad('SharedDocument.onMember'));
    const channel = new CRDTSyncChannel(node.agent({ id: 'writer' }).state('plan'));
    channel.onUpdate(bad('CRDTSyncChannel.onUpdate'));
    await channel.broadcast({ map: 'm', set: { key: 1 } }, 'writer');
    const collections = await node.openCollections('sun');
    collections.onChange(bad('Collections.onChange'));
    await collections.add('memory', { text: 'a note' }, node.registry.ownEntry('sun')!);
    await whenCalled(
      'SharedDocument.onChange',
      'SharedDocument.onUpdate',
      'SharedDocument.onMember',
      'CRDTSyncChannel.onUpdate',
      'Collections.onChange',
    );
  },

  swarms: async () => {
    node.agent({ id: 'painter', capabilities: ['paint'] }).onRequest(() => {
      throw new Error('no paint');
    });
    sun.swarms.onEscalation(bad('SwarmCoordinator.onEscalation'));
    const run = sun.swarm('a picture', { capabilities: ['paint'] });
    run.onChange(bad('SwarmRun.onChange'));
    run.onEscalation(bad('SwarmRun.onEscalation'));
    await run.active;
    sun.swarms.watch(run.id, bad('SwarmCoordinator.watch'));
    await run.result.catch(told);
    await whenCalled('SwarmRun.onChange', 'SwarmRun.onEscalation', 'SwarmCoordinator.onEscalation');
  },

  tools: async () => {
    node.mcp.catalogue.onChange(bad('Catalogue.onChange'));
    node.mcp.onResourceUpdate(bad('McpService.onResourceUpdate'));
    const owner = node.agent({ id: 'owner' }).tool('work', { description: 'Works.' }, (_input, call) => {
      call.progress(1);
      call.log('info', 'x');
      return 'done';
    });
    owner.resource({ uri: 'test://x', name: 'x' }, () => 'x');
    owner.resourceUpdated('test://x');
    const failing = { onProgress: bad('CallTerms.onProgress'), onLog: bad('CallTerms.onLog') };
    const { isError } = await sun.mcp.call('owner.work', {}, failing);
    if (isError) throw new Error('a failing listener made the tool fail');
  },

  mail: async () => {
    sun.onUnread(bad('Agent.onUnread'));
    node.agent({ id: 'fetcher', fetchesMail: true });
    node.mail!.openInbox('fetcher', bad('Mail.openInbox'));
    await sun.send('fetcher', 1, { durable: true, readWithinMs: 1 });
    await whenCalled('Mail.openInbox', 'Agent.onUnread');
  },

  providers: async () => {
    node.providers.onChange(bad('ProviderRegistry.onChange'));
    node.providers.failover.onChange(bad('FailoverRouter.onChange'));
    node.providers.health.onTransition(bad('HealthCoordinator.onTransition'));
    const adapter: ProviderAdapter = {
      init: async () => {},
      health: async () => ({ state: 'healthy', lastCheck: new Date(0), failureCount: 0 }),
      execute: async (_input, _correlation, terms) => {
        terms?.onUpdate?.({ kind: 'progress', text: 'x' });
        return await terms?.onQuestion?.({ kind: 'question', text: 'x' });
      },
      terminate: async () => {},
    };
    const about = { id: 'own', type: 'command', config: {}, workspaceId: 'w', concurrencyLimit: 1 } as const;
    await node.providers.register(about, adapter);
    await once(() => node.providers.get('own').state === 'healthy');
    const route = { type: 'command', workspaceId: 'w' };
    const asking = { onUpdate: bad('ExecuteTerms.onUpdate'), onQuestion: bad('ExecuteTerms.onQuestion') };
    await node.providers.execute(route, {}, 'c', asking).catch(told);
    node.providers.health.crashed('own', { error: new Error('gone') as never });
    await whenCalled('HealthCoordinator.onTransition');
  },

  processes: async () => {
    const children = await Children.open(runtime, { folder: join(folder, 'children') });
    const memory = new MemoryWatch(runtime, 20);
    const lanes = new Lanes(join(folder, 'lanes'));
    const credentials = { resolve: () => Promise.reject(new Error('none')) };
    const parts = { runtime, children, memory, credentials, lane: lanes.open('one') };
    const adapter = new CommandAdapter('program', parts, 'w');
    adapter.onCrash(bad('CommandAdapter.onCrash'));
    adapter.onReady(bad('CommandAdapter.onReady'));
    const program = fileURLToPath(new URL('../providers/program.mjs', import.meta.url));
    await adapter.init({ command: process.execPath, args: [program, 'good'], restart: { firstDelayMs: 5 } });
    const { pid } = adapter.describe() as { pid: number };
    memory.watch(pid, 1, bad('MemoryWatch.watch'));
    await whenCalled('MemoryWatch.watch');
    process.kill(pid, 'SIGKILL');
    await whenCalled('CommandAdapter.onCrash', 'CommandAdapter.onReady');
    const args = ['-e', 'console.error("said")'];
    const child = await children.start({ command: process.execPath, args, onStderr: bad('Program.onStderr') });
    await child.exited;
    await whenCalled('Program.onStderr');
    await lanes.closeAll();
    await children.close();
  },

  approvals: async () => {
    const approvals = new Approvals(runtime);
    approvals.onRequest(bad('Approvals.onRequest'));
    approvals.onDecision(bad('Approvals.onDecision'));
    const [question] = approvals.request({ kind: 'action', subject: 'sun', summary: 'May it?' } as never);
    approvals.decide('deny', 'operator', question!.id);
    approvals.close();
  },

  sessions: async () => {
    node.agent({ id: 'talker', tier: 0 }).onRequest(() => 'hello');
    const processes = new AgentProcesses(runtime, () => node.operator());
    processes.subscribe('s', bad('ProcessManager.subscribe'));
    processes.startProcess({ id: 's', agentId: 'talker' } as never, 'hello');
    await whenCalled('ProcessManager.subscribe');
    let working = false;
    node.agent({ id: 'listening', tier: 0 }).onTask((task) => {
      task.onMessage(bad('AgentTask.onMessage'));
      working = true;
      return new Promise(() => {});
    });
    processes.startProcess({ id: 't', agentId: 'listening' } as never, 'hello');
    await once(() => working);
    const input = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'more' }] };
    await node.operator().send('listening', { [TASK]: { id: 't', input } }, { thread: 't' });
    await whenCalled('AgentTask.onMessage');
  },

  runs: async () => {
    const { registry, router } = node;
    const loop = new RalphLoop({ runtime, store, registry, router, agent: (id) => node.agentById(id) });
    node.agent({ id: 'runner', capabilities: ['run'] }).onTask(() => 'done');
    const tasks = [{ id: 'one', description: 'Do it.', agent: 'runner' }];
    const { id } = await loop.start({ text: JSON.stringify({ tasks }), file: '/plans/plan.json' });
    await loop.follow(id, bad('RalphLoop.follow'), new AbortController().signal);
    await loop.close();
  },
};

for (const [name, run] of Object.entries(scenarios)) {
  const late = setTimeout(() => {
    console.error(`${name} does not end; called so far: ${[...called].join(' ')}`);
    process.exit(2);
  }, 20_000);
  await run();
  clearTimeout(late);
}
// Unhandled rejections end a process after the turn in which they happen.
await new Promise((resolve) => setTimeout(resolve, 20));
await node.stop();
rmSync(folder, { recursive: true, force: true });
console.log(JSON.stringify({ called: [...called], reports }));
