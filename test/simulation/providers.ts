import { NormalizedProviderError } from '../../src/providers/adapter/errors.js';
import { ScriptedAdapter } from '../providers/scripted-adapter.js';
import type { Capability } from './capability.js';
import type { Dice } from './dice.js';
import type { Fabric, UpLife } from './fabric.js';

interface Work {
  readonly id: string;
  readonly life: UpLife;
  outcome: 'pending' | 'resolved' | 'failed';
}

const INTERVAL_MS = 5_000;

/** Three providers of each node, which fail, hang and come back: work goes to one of them, once. */
export class Providers implements Capability {
  readonly name = 'providers';
  readonly weight = 8;
  readonly #fabric: Fabric;
  readonly #adapters = new Map<UpLife, readonly ScriptedAdapter[]>();
  readonly #work: Work[] = [];
  #next = 0;

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  async began(life: UpLife): Promise<void> {
    const adapters = [0, 1, 2].map(() => new ScriptedAdapter(life.runtime));
    this.#adapters.set(life, adapters);
    for (const [priority, adapter] of adapters.entries()) {
      const about = { id: `p${priority}`, type: 'command', config: {}, workspaceId: 'w', concurrencyLimit: 2 } as const;
      await life.node.providers.register({ ...about, priority, healthCheckIntervalMs: INTERVAL_MS }, adapter);
      const execute = adapter.execute.bind(adapter);
      adapter.execute = (...call) => {
        const { state } = life.node.providers.getHealthStatus(about.id);
        this.#fabric.check(
          'provider work',
          state === 'healthy',
          () => `${life.name} gives work to ${about.id}, which is ${state}`,
        );
        return execute(...call);
      };
    }
  }

  act(dice: Dice): void {
    const life = dice.pickMaybe(this.#fabric.up);
    const adapters = life && this.#adapters.get(life);
    if (!life || !adapters) return;
    const adapter = dice.pick(adapters);
    const draw = dice.next();
    if (draw < 0.06) adapter.well = 'no';
    else if (draw < 0.2) adapter.well = 'yes';
    else if (draw < 0.24) adapter.crash();
    else if (draw < 0.28) adapter.well = 'silent';
    else if (draw < 0.4) adapter.answer();
    else if (draw < 0.5) adapter.holds = dice.chance(0.5);
    else if (draw < 0.6) adapter.held.shift()?.finish();
    else this.#execute(life);
  }

  #execute(life: UpLife): void {
    const id = `work-${this.#next++}`;
    const work: Work = { id, life, outcome: 'pending' };
    this.#work.push(work);
    this.#fabric.note(`${life.name} gives ${id} to a provider`);
    this.#fabric.count('provider work');
    life.node.providers.execute({ type: 'command', workspaceId: 'w' }, id, id).then(
      (output) => {
        if (life.state === 'crashed') return;
        work.outcome = 'resolved';
        this.#fabric.note(`${id} is done`);
        this.#fabric.check('provider work', output === id, () => `${id} has the result ${JSON.stringify(output)}`);
      },
      (error: unknown) => {
        if (life.state === 'crashed') return;
        work.outcome = 'failed';
        this.#fabric.note(`${id} failed`);
        const typed = error instanceof NormalizedProviderError;
        this.#fabric.check('provider work', typed, () => `${id} failed with ${String(error)}`);
      },
    );
  }

  /** All providers are well again, and hold nothing. */
  calm(): void {
    for (const adapters of this.#adapters.values()) {
      for (const adapter of adapters) {
        adapter.well = 'yes';
        adapter.holds = false;
        adapter.answer();
        for (const { finish } of adapter.held.splice(0)) finish();
      }
    }
  }

  left(): string[] {
    const pending = this.#work.filter(({ outcome, life }) => outcome === 'pending' && life.state === 'up');
    const waiting = this.#fabric.up.filter(({ node }) => node.providers.waiting > 0);
    return [
      ...pending.map(({ id }) => `${id} has not ended`),
      ...waiting.map(({ name, node }) => `${name} has ${node.providers.waiting} pieces of work that wait`),
    ];
  }

  judge(): void {
    const given = new Map<string, number>();
    for (const adapters of this.#adapters.values()) {
      for (const { came } of adapters) for (const id of came) given.set(id, (given.get(id) ?? 0) + 1);
    }
    for (const { id, outcome } of this.#work) {
      const times = given.get(id) ?? 0;
      this.#fabric.check('provider work', times <= 1, () => `${id} was given to ${times} providers`);
      const done = outcome !== 'resolved' || times === 1;
      this.#fabric.check('provider work', done, () => `${id} has a result, and no provider got it`);
    }
  }
}
