import type { Agent } from '../../src/agent/agent.js';
import { EclipticError, isErrorCode } from '../../src/runtime/errors.js';
import type { Capability } from './capability.js';
import type { Dice } from './dice.js';
import { type Fabric, isWithinSandbox, NEVER, nameOf, ON_PURPOSE, type Role, type UpLife } from './fabric.js';

interface Call {
  readonly index: number;
  readonly life: UpLife;
  readonly about: string;
  /** The time after which it must have ended. */
  readonly endsBy: number;
  executions: number;
  outcome: 'pending' | 'resolved' | 'failed';
}

/** How long a call may take beyond its time limit: the other node keeps the deadline, and its answer travels back. */
const PATIENCE_MS = 20_000;
const ARGUMENTS = {
  type: 'object',
  properties: { call: { type: 'integer' }, delayMs: { type: 'number' }, fails: { type: 'boolean' } },
  required: ['call', 'delayMs', 'fails'],
  additionalProperties: false,
} as const;

/** Tools of every agent, called from every node: executed at most once, by those who may. */
export class Tools implements Capability {
  readonly name = 'tools';
  readonly weight = 12;
  readonly #fabric: Fabric;
  readonly #calls: Call[] = [];

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  enter(agent: Agent, role: Role, life: UpLife): void {
    agent.tool('count', { description: 'counts its calls', inputSchema: ARGUMENTS }, async (args) => {
      const { call: index, delayMs, fails } = args as { call: number; delayMs: number; fails: boolean };
      const call = this.#calls[index];
      if (life.state === 'crashed') return NEVER;
      const typed = typeof index === 'number' && typeof delayMs === 'number' && typeof fails === 'boolean';
      this.#fabric.check('tool call', typed, () => `${role.id} was called with arguments that its schema forbids`);
      if (!call) return 'none';
      call.executions++;
      this.#fabric.note(`${life.name}: ${role.id} executes ${call.about}`);
      this.#fabric.check('tool call', call.executions === 1, () => `${call.about} was executed again`);
      if (delayMs > 0) await life.runtime.pause(delayMs);
      if (fails) throw new Error(ON_PURPOSE);
      return `done ${index}`;
    });
  }

  act(dice: Dice): void {
    const life = dice.pickMaybe(this.#fabric.up);
    const role = life && dice.pickMaybe(life.station.roles);
    if (!life || !role) return;
    const agent = life.agents.get(role.id)!;
    const tools = agent.mcp.tools;
    for (const { agent: owner } of tools) {
      const other = this.#fabric.roleAt(owner, life.station);
      const allowed = other === undefined || isWithinSandbox(role, other);
      this.#fabric.check('tools, resources, prompts', allowed, () => `${role.id} sees tools of ${owner}`);
    }
    const tool = dice.pickMaybe(tools.filter(({ name }) => name.endsWith('.count')));
    if (!tool) return;
    this.#call(agent, role, life, tool.name, dice);
    if (role.sandbox !== undefined && dice.chance(0.5)) this.#callHidden(agent, role, life, dice);
  }

  #call(agent: Agent, role: Role, life: UpLife, tool: string, dice: Dice): void {
    const index = this.#calls.length;
    const timeoutMs = dice.pick([500, 3_000, 10_000]);
    const delayMs = dice.chance(0.6) ? 0 : dice.between(0, 6_000);
    const fails = dice.chance(0.1);
    const about = `call ${index} of ${role.id} to ${tool}`;
    const endsBy = this.#fabric.now + timeoutMs + PATIENCE_MS;
    const call: Call = { index, life, about, endsBy, executions: 0, outcome: 'pending' };
    this.#calls.push(call);
    this.#fabric.note(about);
    this.#fabric.count('tool call');
    const wrong = dice.chance(0.1);
    const args = wrong ? { call: String(index), delayMs, fails } : { call: index, delayMs, fails };
    agent.mcp.call(tool, args, { timeoutMs }).then(
      (result) => {
        if (life.state === 'crashed') return;
        this.#fabric.note(`${about} ended`);
        const failed = result.isError === true;
        call.outcome = failed ? 'failed' : 'resolved';
        if (failed) return;
        const text = JSON.stringify(result.content);
        const right = text.includes(`done ${index}`) && call.executions === 1 && !wrong;
        this.#fabric.check('tool call', right, () => `${about} has ${text} after ${call.executions} executions`);
      },
      (error: unknown) => {
        if (life.state === 'crashed') return;
        this.#fabric.note(`${about} failed: ${nameOf(error)}`);
        call.outcome = 'failed';
        const typed = error instanceof EclipticError && isErrorCode(error.code);
        this.#fabric.check('tool call', typed, () => `${about} failed with ${nameOf(error)}`);
      },
    );
  }

  /** A sandboxed agent names a tool that it must not reach. */
  #callHidden(agent: Agent, role: Role, life: UpLife, dice: Dice): void {
    const outside = this.#fabric.roles.filter((other) => !isWithinSandbox(role, other));
    const owner = dice.pickMaybe(outside);
    if (!owner) return;
    const index = this.#calls.length;
    const about = `forbidden call ${index} of ${role.id} to ${owner.id}`;
    const endsBy = this.#fabric.now + PATIENCE_MS;
    const call: Call = { index, life, about, endsBy, executions: 0, outcome: 'pending' };
    this.#calls.push(call);
    const name = `${this.#fabric.address(owner, life.station)}.count`;
    agent.mcp.call(name, { call: index, delayMs: 0, fails: false }).then(
      () => {
        call.outcome = 'resolved';
        this.#fabric.violation('tools, resources, prompts', `${about} was answered`);
      },
      () => {
        call.outcome = 'failed';
      },
    );
  }

  look(): void {
    for (const call of this.#calls) {
      if (call.outcome !== 'pending' || call.life.state !== 'up' || this.#fabric.now < call.endsBy) continue;
      call.outcome = 'failed';
      this.#fabric.violation('tool call', `${call.about} did not end within its time`);
    }
  }

  left(): string[] {
    return this.#calls
      .filter(({ outcome, life }) => outcome === 'pending' && life.state === 'up')
      .map(({ about }) => `${about} has not ended`);
  }

  judge(): void {
    for (const { about, executions } of this.#calls) {
      if (!about.startsWith('forbidden')) continue;
      this.#fabric.check('tools, resources, prompts', executions === 0, () => `${about} was executed`);
    }
  }
}
