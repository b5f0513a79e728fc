import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { type Completion, type Reply, ScriptedModel } from '../scripted-model.js';

/** The program counts how often it runs, and fails where the endpoint's file is not as the plan wants it. */
const CHECK = `const fs = require('fs');
fs.appendFileSync('checks.log', 'run\\n');
console.error('looking at api.js');
const source = fs.readFileSync('api.js', 'utf8');
if (!source.includes('checkPassword')) { console.log('api.js checks no password'); process.exit(1); }
console.log(JSON.stringify({ passed: true, task: process.env.ECLIPTIC_TASK_TEXT }));`;

const PLAN = {
  name: 'login',
  description: 'A login page.',
  tasks: [
    { id: 'tables', description: 'Design the tables.', agent: 'pluto', dependsOn: [] },
    {
      id: 'api',
      description: 'Write the login endpoint to api.js.',
      agent: 'mars',
      dependsOn: ['tables'],
      validate: { criteria: ['passwords are checked'] },
    },
    { id: 'check', description: 'Check the endpoint.', agent: 'saturn', dependsOn: ['api'] },
  ],
};

const FIRST = 'export const login = () => true;\n';
const SECOND = 'export const login = (user) => checkPassword(user);\n';

/** Four brains in one endpoint: each is known by its role. */
class Brains {
  /** Called for each completion of a role, before it is answered. */
  readonly seen: { role: string; prompt: string; at: Completion }[] = [];
  hold: ((role: string) => Promise<void>) | undefined;
  readonly model: ScriptedModel;

  private constructor(model: ScriptedModel) {
    this.model = model;
  }

  static async start(): Promise<Brains> {
    const brains: Brains = new Brains(await ScriptedModel.start((completion) => brains.#answer(completion)));
    return brains;
  }

  tasksOf(role: string): number {
    return this.seen.filter((one) => one.role === role && one.at.messages.at(-1)!.role === 'user').length;
  }

  async #answer(at: Completion): Promise<Reply> {
    const [, role] = /^You are (\w+)/.exec(at.messages[0]!.content!)!;
    const name = role!.toLowerCase();
    const last = at.messages.at(-1)!;
    this.seen.push({ role: name, prompt: last.content ?? '', at });
    await this.hold?.(name);
    switch (name) {
      case 'sun':
        // The first plan names an agent that does not exist.
        if (!last.content!.includes('It has faults')) return JSON.stringify(withWorker('ceres'));
        return JSON.stringify(PLAN);
      case 'pluto':
        return 'accounts(id, name, password_hash)';
      case 'mercury':
        return JSON.stringify(
          last.content!.includes('checkPassword')
            ? { verdict: 'approved', feedback: '' }
            : { verdict: 'needs-revision', feedback: 'No password is checked: call checkPassword.' },
        );
      case 'mars':
        if (last.role === 'tool') {
          const path = 'api.js';
          const written = at.messages.findLast(({ tool_calls: calls }) => calls)!.tool_calls![0]!.function;
          return written.name === 'read_file'
            ? { text: 'I will change it.', calls: [['write_file', { path, content: SECOND }]] }
            : `Wrote ${path}:\n${(JSON.parse(written.arguments) as { content: string }).content}`;
        }
        return last.content!.includes('call checkPassword')
          ? { calls: [['read_file', { path: 'api.js' }]] }
          : { text: 'I will write it.', calls: [['write_file', { path: 'api.js', content: FIRST }]] };
      default:
        throw new Error(`nothing is scripted for ${name}`);
    }
  }
}

function withWorker(agent: string) {
  return { ...PLAN, tasks: PLAN.tasks.map((task) => ({ ...task, agent: task.id === 'check' ? agent : task.agent })) };
}

interface Report {
  readonly status: string;
  readonly tasks: readonly { readonly id: string; readonly state: string; readonly attempts: number }[];
}

describe('a plan that brains make and do', () => {
  it(
    'produces files and a report, with a retry after feedback, whatever is killed in between [WK.1 WK.2]',
    inCluster(async (cluster) => {
      const brains = await Brains.start();
      cluster.onEnd(() => brains.model.stop());
      const model = { ...brains.model.config, cwd: '.', healthMs: 5_000, price: { input: 1, output: 2 } };
      const agents = {
        ...Object.fromEntries(['sun', 'mercury', 'mars', 'pluto'].map((role) => [role, { model }])),
        saturn: { exec: { command: process.execPath, args: ['-e', CHECK] } },
      };
      const config = { agents, hierarchy: { retryDelayMs: 50 } };
      const node = await cluster.start('maker', { args: ['--no-dht'], config, env: { ECLIPTIC_LOG: 'warn' } });
      await staffed(node, ['sun', 'mercury', 'mars', 'pluto', 'saturn']);
      const project = join(node.home);

      const made = await node.run('plan', 'make', 'Add a login page', '--out', join(project, 'plan.yaml'));
      expect(made, made.stderr).toMatchObject({ code: 0 });
      expect(brains.tasksOf('sun')).toBe(2);
      expect(brains.seen.find(({ prompt }) => prompt.includes('It has faults'))!.prompt).toContain('ceres');

      // The node is killed while mars thinks, and so is the endpoint.
      const out = join(project, 'results');
      mkdirSync(out);
      const begun = new Promise<void>((resolve) => {
        brains.hold = async (role) => {
          if (role !== 'mars') return;
          resolve();
          await new Promise(() => {});
        };
      });
      const first = node.run('plan', 'run', join(project, 'plan.yaml'), '--out', out);
      await begun;
      await node.crash();
      const interrupted = await first;
      expect(interrupted.code, interrupted.stdout).not.toBe(0);
      expect(existsSync(join(project, 'api.js'))).toBe(false);
      brains.hold = undefined;
      await brains.model.stop();
      await node.start();
      await until(async () => (await stateOf(node, 'mars')) !== 'ready', 'mars is known to be without its endpoint');
      await brains.model.listen();
      await staffed(node, ['mercury', 'mars', 'pluto']);

      const second = await node.run('plan', 'run', join(project, 'plan.yaml'), '--out', out);
      expect(second, second.stdout + second.stderr).toMatchObject({ code: 0 });
      expect(readFileSync(join(project, 'api.js'), 'utf8')).toBe(SECOND);
      const report = JSON.parse(readFileSync(join(out, 'report.json'), 'utf8')) as Report;
      expect(report.tasks.map(({ id, state }) => [id, state])).toEqual([
        ['tables', 'done'],
        ['api', 'done'],
        ['check', 'done'],
      ]);
      expect(readFileSync(join(out, 'report.md'), 'utf8')).toContain('No password is checked');
      expect(readFileSync(join(out, 'tables.md'), 'utf8')).toContain('password_hash');
      expect(JSON.parse(readFileSync(join(out, 'check.json'), 'utf8'))).toEqual({
        passed: true,
        task: 'Check the endpoint.',
      });

      // The retry continued the same conversation, and its result was judged again.
      const retry = brains.seen.find(({ role, prompt }) => role === 'mars' && prompt.includes('call checkPassword'))!;
      expect(retry.at.messages.map(({ content }) => content).join()).toContain(`Wrote api.js:\n${FIRST}`);
      // Nothing that was done was done again.
      expect(brains.tasksOf('pluto')).toBe(1);
      expect(readFileSync(join(project, 'checks.log'), 'utf8')).toBe('run\n');
      const before = brains.seen.length;
      const third = await node.run('plan', 'run', join(project, 'plan.yaml'), '--out', out);
      expect(third.code).toBe(0);
      expect(brains.seen.length).toBe(before);

      // A task that the program does not approve is not done, and neither is the run.
      writeFileSync(join(project, 'api.js'), FIRST);
      const alone = { tasks: [{ id: 'check', description: 'Check again.', agent: 'saturn', retries: 0 }] };
      writeFileSync(join(project, 'check.json'), JSON.stringify(alone));
      const failed = await node.run('plan', 'run', join(project, 'check.json'), '--out', join(project, 'failed'));
      expect(failed.code).toBe(1);
      expect(failed.stdout + failed.stderr).toContain('api.js checks no password');
      const { tasks } = JSON.parse(readFileSync(join(project, 'failed', 'report.json'), 'utf8')) as Report;
      expect(tasks[0]!.state).not.toBe('done');
    }),
    180_000,
  );
});

describe('a plan whose node is killed in the middle of a task without retries', () => {
  it(
    'goes on when the workers are back, and finds them although they are still being started [WK.2]',
    inCluster(async (cluster) => {
      const program = `const fs = require('fs'); fs.appendFileSync('begun.log', 'x');
        setTimeout(() => console.log('done'), fs.readFileSync('begun.log', 'utf8').length > 1 ? 10 : 60_000);`;
      const agents = { saturn: { exec: { command: process.execPath, args: ['-e', program] } } };
      const node = await cluster.start('keeper', { args: ['--no-dht'], config: { agents } });
      await staffed(node, ['saturn']);
      const text = JSON.stringify({ tasks: [{ id: 'a', description: 'Do it.', agent: 'saturn', retries: 0 }] });
      const { id } = await node.call<{ id: string }>('run.start', { text, file: join(node.home, 'plan.json') });
      await until(() => existsSync(join(node.home, 'begun.log')), 'the program has begun');
      await node.crash();
      await node.start();
      const view = await until(async () => {
        const now = await node.call<{ status: string; tasks: { result?: unknown }[] }>('run', { id });
        return now.status === 'running' ? undefined : now;
      }, 'the run has ended');
      expect(view).toMatchObject({ status: 'done', tasks: [{ result: 'done' }] });
    }),
    120_000,
  );
});

async function stateOf(node: ProcessNode, agent: string): Promise<string> {
  const rows = await node.json<{ id: string; state: string }[]>('agents');
  return rows.find(({ id }) => id === agent)!.state;
}

async function staffed(node: ProcessNode, agents: readonly string[]): Promise<void> {
  await until(async () => {
    const states = await Promise.all(agents.map((agent) => stateOf(node, agent)));
    return states.every((state) => state === 'ready');
  }, 'all workers are ready');
}
