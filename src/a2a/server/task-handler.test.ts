import fc from 'fast-check';
import { beforeEach, describe, expect, expectTypeOf, it, vi } from 'vitest';
import { createNode } from '../../node/compose.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { MemoryStore } from '../../store/memory-store.js';
import { clearAgentCardCache, discoverAgent, fetchAgentCard, invokeRemoteAgent } from '../client/remote-agents.js';
import { NotFoundError, ValidationError } from '../protocol/errors.js';
import type {
  A2AAgentCard,
  A2AMessage,
  A2ATask,
  A2ATaskSendRequest,
  A2ATaskState,
  RemoteInvocationResult,
} from '../protocol/simple.js';
import { buildAgentCard, buildAgentCardForAgent } from './cards.js';
import type { ProcessEvent, ProcessListener, ProcessManager, Session } from './process-manager.js';
import { sessions as sessionTable } from './tables.js';
import { type A2ATaskDeps, clearTaskStore, handleTaskGet, handleTaskSend } from './task-handler.js';

beforeEach(clearTaskStore);

describe('a task that is sent', () => {
  it('is worked on by a session, and completed when that exits [GS1 GF.handleTaskSend GI13 GT.A2ATaskDeps GT.A2ATask]', () => {
    const { deps, processes, sessions } = start();
    const task = handleTaskSend(deps, { message: 'Hello' });
    expect(task).toMatchObject({ state: 'working', sessionId: sessions[0]!.id });
    expect(task.createdAt).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
    expect(task.messages).toEqual([{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }]);
    expect(sessions).toMatchObject([
      { projectId: 'web', agentId: 'second', name: 'A2A Task: Hello', initialPrompt: 'Hello', source: 'agent' },
    ]);
    expect(processes.started).toEqual([[sessions[0]!.id, 'Hello']]);
    processes.emit(sessions[0]!.id, said('Hi there'));
    expect(handleTaskGet(task.id)?.messages.at(-1)).toEqual({
      role: 'agent',
      parts: [{ type: 'text', text: 'Hi there' }],
    });
    processes.emit(sessions[0]!.id, { type: 'session_exited' });
    expect(handleTaskGet(task.id)).toMatchObject({ state: 'completed' });
    expect(processes.listening).toBe(0);
  });

  it('goes to the first agent that has a project, and is refused if none has one [GI3 GS5 GE1]', () => {
    const { deps } = start([]);
    expect(() => handleTaskSend(deps, { message: 'Hello' })).toThrow(NotFoundError);
    expect(() => handleTaskSend(deps, { message: 'Hello' })).toThrow('Agent with default project');
    const { deps: some, sessions } = start();
    handleTaskSend(some, { params: { message: 'Hello' } });
    expect(sessions[0]).toMatchObject({ agentId: 'second' });
  });

  it.each([[{}], [{ message: '' }], [null], [{ params: 1 }], [{ message: 'x', timeoutMs: 1 }]])(
    'is refused where %j says nothing that can be done [GT.A2ATaskSendRequest]',
    (body) => {
      expect(() => handleTaskSend(start().deps, body)).toThrow(ValidationError);
    },
  );

  it('has a session whose name ends before a character of two units, never within it [T-D1]', () => {
    const { deps, sessions } = start();
    handleTaskSend(deps, { message: `${'x'.repeat(49)}😀` });
    expect(sessions[0]!.name).toBe(`A2A Task: ${'x'.repeat(49)}`);
  });

  it('is not given to an agent whose project is undefined [T-D9]', () => {
    const { deps, sessions } = start([{ id: 'first' }, { id: 'second', defaultProjectId: 'web' }]);
    handleTaskSend(deps, { message: 'Hello' });
    expect(sessions).toMatchObject([{ agentId: 'second', projectId: 'web' }]);
    expect(() => handleTaskSend(start([{ id: 'first' }]).deps, { message: 'Hello' })).toThrow(
      'Agent with default project',
    );
  });

  it('is found by its id until everything is forgotten [GF.handleTaskGet GF.clearTaskStore]', () => {
    const { id } = handleTaskSend(start().deps, { message: 'Hello' });
    expect(handleTaskGet(id)).toMatchObject({ id });
    expect(handleTaskGet('another')).toBeNull();
    clearTaskStore();
    expect(handleTaskGet(id)).toBeNull();
  });

  it('fails when it takes too long, and its process is stopped [GS2 GI6]', async () => {
    const { deps, runtime, processes, sessions } = start();
    const { id } = handleTaskSend(deps, { message: 'Hello', timeoutMs: 5_000 });
    await runtime.advance(4_999);
    expect(handleTaskGet(id)?.state).toBe('working');
    await runtime.advance(2);
    expect(handleTaskGet(id)).toMatchObject({ state: 'failed' });
    expect(textOfLast(handleTaskGet(id)!)).toBe('Task timed out');
    expect(processes.stopped).toEqual([sessions[0]!.id]);
    // What the process says on its way out changes nothing.
    processes.emit(sessions[0]!.id, { type: 'session_exited' });
    expect(handleTaskGet(id)?.state).toBe('failed');
  });

  it('has five minutes unless it says otherwise [GI6]', async () => {
    const { deps, runtime } = start();
    const { id } = handleTaskSend(deps, { message: 'Hello' });
    await runtime.advance(5 * 60_000 - 10);
    expect(handleTaskGet(id)?.state).toBe('working');
    await runtime.advance(20);
    expect(handleTaskGet(id)?.state).toBe('failed');
  });

  it('leaves no timer behind, however it ends [GI7 GE8]', () => {
    for (const type of ['session_exited', 'session_stopped', 'error'] as const) {
      const { deps, runtime, processes, sessions } = start();
      const { id } = handleTaskSend(deps, { message: 'Hello' });
      const event = type === 'error' ? { type, error: { message: 'it broke', type: 'crash' } } : { type };
      processes.emit(sessions[0]!.id, event as ProcessEvent);
      expect(handleTaskGet(id)?.state).toBe(type === 'error' ? 'failed' : 'completed');
      expect(runtime.pending).toBe(0);
    }
  });

  it('goes forward only, ends once, and never changes after its end [GI1 GI2]', async () => {
    const event = fc.oneof(
      fc.string({ minLength: 1 }).map(said),
      fc.constantFrom<ProcessEvent>(
        { type: 'session_exited' },
        { type: 'session_stopped' },
        { type: 'session_started' },
        { type: 'error', error: { message: 'it broke', type: 'crash' } },
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(event, fc.integer({ min: 1, max: 400_000 }))), async (steps) => {
        clearTaskStore();
        const { deps, runtime, processes, sessions } = start();
        const { id } = handleTaskSend(deps, { message: 'Hello' });
        let before = handleTaskGet(id)!;
        for (const step of steps) {
          if (typeof step === 'number') await runtime.advance(step);
          else processes.emit(sessions[0]!.id, step);
          const now = handleTaskGet(id)!;
          expect(ORDER[now.state]).toBeGreaterThanOrEqual(ORDER[before.state]);
          if (before.state === 'completed' || before.state === 'failed') expect(now).toEqual(before);
          before = now;
        }
      }),
      { numRuns: 200 },
    );
  });

  it('is forgotten, once it has ended, when there are too many; one at work never is [GI4 GI5]', () => {
    const { deps, processes, sessions } = start();
    const ids = Array.from({ length: 1_000 }, () => handleTaskSend(deps, { message: 'Hello' }).id);
    // The first hundred stay at work.
    for (const session of sessions.slice(100)) processes.emit(session.id, { type: 'session_exited' });
    const next = handleTaskSend(deps, { message: 'one more' }).id;
    const left = ids.filter((id) => handleTaskGet(id) !== null);
    expect(left).toHaveLength(900);
    expect(left.slice(0, 100)).toEqual(ids.slice(0, 100));
    expect(left.slice(100)).toEqual(ids.slice(200));
    expect(handleTaskGet(next)).not.toBeNull();
  });

  it('has the types that its users write against [GT.A2ATaskState GT.A2AMessage GT.A2ATaskSendRequest]', () => {
    expectTypeOf<A2ATaskState>().toEqualTypeOf<'submitted' | 'working' | 'completed' | 'failed'>();
    expectTypeOf<A2AMessage['role']>().toEqualTypeOf<'user' | 'agent'>();
    expectTypeOf<A2ATaskSendRequest['params']['message']>().toBeString();
    expect(Object.keys(ORDER)).toHaveLength(4);
  });
});

describe('a node that is served', () => {
  it('gives tasks of handleTaskSend to its agents, in stored sessions [GF.handleTaskSend GI13]', async () => {
    const store = new MemoryStore();
    const node = await createNode({ store });
    node.agent({ id: 'mars' }).onTask((task) => `built ${task.text}`);
    const { taskDeps } = await node.serve({ port: 0 });
    try {
      const { id, sessionId } = handleTaskSend(taskDeps, { message: 'login' });
      await expect.poll(() => handleTaskGet(id)?.state).toBe('completed');
      expect(textOfLast(handleTaskGet(id)!)).toBe('built login');
      await expect
        .poll(() => store.read(sessionTable, { where: { id: sessionId! } }))
        .toMatchObject([{ agent: 'mars', project: 'default', source: 'agent', prompt: 'login' }]);
    } finally {
      await node.stop();
    }
  });

  it('has a card with the tools of its agents, and a card for each agent [GF.buildAgentCard GF.buildAgentCardForAgent GI12]', async () => {
    const node = await createNode();
    const mars = node.agent({ id: 'mars', description: 'Builds.' });
    mars.tool('github_star_repo', { description: 'Stars.' }, () => null);
    node.agent({ id: 'venus' }).tool('paint', {}, () => null);
    await node.serve({ port: 0 });
    try {
      const card = buildAgentCard('http://example.test');
      expect(card).toMatchObject({ url: 'http://example.test', authentication: { schemes: ['Bearer'] } });
      expect(card.skills.map(({ id }) => id)).toEqual(['mars.github_star_repo', 'venus.paint']);
      expect(card.skills[0]).toMatchObject({ name: 'GitHub Star Repo', description: 'Stars.' });
      expect(card.skills[1]).toMatchObject({ description: 'Tool: paint', tags: ['general'] });
      mars.tool('later', {}, () => null);
      expect(buildAgentCard().skills).toHaveLength(3);
      const own = buildAgentCardForAgent({ id: 'venus' });
      expect(own.skills.map(({ id }) => id)).toEqual(['venus.paint']);
    } finally {
      await node.stop();
    }
  });

  it('has a card without skills if this process serves no node [T-D9]', () => {
    expect(buildAgentCard('http://example.test')).toMatchObject({
      name: 'Ecliptic',
      version: expect.any(String),
      url: 'http://example.test',
      skills: [],
    });
    const agent = { id: 'mars', name: 'Mars', mcpToolPermissions: ['anything'] };
    expect(buildAgentCardForAgent(agent, 'http://example.test')).toMatchObject({ name: 'Mars', skills: [] });
  });
});

describe('the card of an agent', () => {
  it.each([[undefined], [new MemoryStore()]])(
    'shows the tools that its permissions and bundles name, and else its own [GI14]',
    async (store) => {
      const node = await createNode({ ...(store && { store }) });
      for (const id of ['mars', 'venus', 'earth']) node.agent({ id }).tool(`do_${id}`, {}, () => null);
      const about = {
        mars: { mcpToolPermissions: ['venus.do_venus', 'gone'], persona: { archetype: 'The builder' } },
        venus: { skillBundles: [{ name: 'soil', tools: ['do_earth'] }] },
      };
      await node.serve({ port: 0, about });
      const skills = (id: string) => buildAgentCardForAgent({ id }).skills.map((skill) => skill.id);
      try {
        expect(skills('mars')).toEqual(['venus.do_venus']);
        expect(skills('venus')).toEqual(['earth.do_earth', 'venus.do_venus']);
        expect(skills('earth')).toEqual(['earth.do_earth']);
        expect(buildAgentCardForAgent({ id: 'mars' }).description).toContain('The builder');
      } finally {
        await node.stop();
      }
    },
  );

  it('shows the agent’s row and the database’s persona and bundles [T-D9 GI14]', async () => {
    const node = await createNode();
    for (const id of ['mars', 'venus', 'earth']) node.agent({ id }).tool(`do_${id}`, {}, () => null);
    await node.serve({ port: 0, about: { mars: { mcpToolPermissions: ['do_earth'] } } });
    const skills = (mcpToolPermissions: readonly string[] | null | undefined) =>
      buildAgentCardForAgent({ id: 'mars', mcpToolPermissions }).skills.map((skill) => skill.id);
    const db = {
      getPersona: (id: string) => (id === 'mars' ? { archetype: 'The builder' } : null),
      getAgentBundles: () => [{ name: 'soil', tools: ['do_earth'] }],
    };
    try {
      expect(skills(['venus.do_venus'])).toEqual(['venus.do_venus']);
      expect(skills([])).toEqual([]);
      expect(skills(null)).toEqual(['mars.do_mars']);
      expect(skills(undefined)).toEqual(['earth.do_earth']);
      const card = buildAgentCardForAgent({ id: 'mars', mcpToolPermissions: null }, 'http://example.test', db);
      expect(card.description).toContain('The builder');
      expect(card.skills.map((skill) => skill.id)).toEqual(['earth.do_earth', 'mars.do_mars']);
      expect(() => buildAgentCardForAgent({ id: 'pluto' })).toThrow(
        expect.objectContaining({ code: 'AGENT_NOT_FOUND' }),
      );
    } finally {
      await node.stop();
    }
  });

  it('is at the address that the environment names, else where this process serves it [GC.PORT GC.BIND_HOST T-D9]', async () => {
    vi.stubEnv('PORT', undefined).stubEnv('BIND_HOST', undefined);
    expect(buildAgentCard().url).toBe('http://127.0.0.1:3000');
    const node = await createNode();
    node.agent({ id: 'mars' });
    const { url } = await node.serve({ port: 0 });
    try {
      expect(buildAgentCard().url).toBe(url);
      expect(buildAgentCardForAgent({ id: 'mars' }).url).toBe(`${url}/api/agents/mars`);
      vi.stubEnv('PORT', '0');
      expect(buildAgentCard().url).toBe(url);
      vi.stubEnv('PORT', '8123').stubEnv('BIND_HOST', 'node.example');
      expect(buildAgentCard().url).toBe('http://node.example:8123');
    } finally {
      vi.unstubAllEnvs();
      await node.stop();
    }
  });
});

it('the nine functions of the task gateway have the signatures of their specification [GF.handleTaskSend]', () => {
  expectTypeOf(fetchAgentCard).toExtend<(baseUrl: string) => Promise<A2AAgentCard>>();
  expectTypeOf(discoverAgent).toExtend<(baseUrl: string) => Promise<A2AAgentCard | null>>();
  expectTypeOf(clearAgentCardCache).toEqualTypeOf<() => void>();
  expectTypeOf(invokeRemoteAgent).toExtend<
    (baseUrl: string, message: string, options?: object) => Promise<RemoteInvocationResult>
  >();
  expectTypeOf(handleTaskSend).toExtend<(deps: A2ATaskDeps, body: A2ATaskSendRequest) => A2ATask>();
  expectTypeOf(handleTaskGet).toEqualTypeOf<(taskId: string) => A2ATask | null>();
  expectTypeOf(clearTaskStore).toEqualTypeOf<() => void>();
  expectTypeOf(buildAgentCard).toEqualTypeOf<(baseUrl?: string) => A2AAgentCard>();
  expectTypeOf(buildAgentCardForAgent).toExtend<(agent: { id: string }, baseUrl?: string) => A2AAgentCard>();
});

const ORDER: Readonly<Record<A2ATaskState, number>> = { submitted: 0, working: 1, completed: 2, failed: 2 };

const AGENTS = [
  { id: 'first', defaultProjectId: null },
  { id: 'second', defaultProjectId: 'web' },
  { id: 'third', defaultProjectId: 'app' },
];

function start(agents: readonly { id: string; defaultProjectId?: string | null }[] = AGENTS) {
  const runtime = new SimulatedRuntime();
  const processes = new ScriptedProcesses();
  const sessions: Session[] = [];
  const deps: A2ATaskDeps = {
    runtime,
    processManager: processes,
    db: {
      listAgents: () => agents,
      createSession: (init) => {
        const session = { ...init, id: `session-${sessions.length}` };
        sessions.push(session);
        return session;
      },
    },
  };
  return { deps, runtime, processes, sessions };
}

/** Processes that say what the test wants them to. */
class ScriptedProcesses implements ProcessManager {
  readonly started: [string, string][] = [];
  readonly stopped: string[] = [];
  readonly #listeners = new Map<string, ProcessListener>();

  get listening(): number {
    return this.#listeners.size;
  }

  subscribe(sessionId: string, listener: ProcessListener): () => void {
    this.#listeners.set(sessionId, listener);
    return () => {
      this.#listeners.delete(sessionId);
    };
  }

  startProcess({ id }: Session, prompt: string): void {
    this.started.push([id, prompt]);
  }

  stopProcess(sessionId: string): void {
    this.stopped.push(sessionId);
    this.emit(sessionId, { type: 'session_stopped' });
  }

  emit(sessionId: string, event: ProcessEvent): void {
    this.#listeners.get(sessionId)?.(sessionId, event);
  }
}

function said(content: string): ProcessEvent {
  return { type: 'assistant', message: { role: 'assistant', content } };
}

function textOfLast({ messages }: A2ATask): string | undefined {
  return messages.at(-1)?.parts[0]?.text;
}
