import { describe, expect, it } from 'vitest';
import type { Life } from '../../../test/durable/simulated-mail.js';
import { type LargeMesh, largeMesh } from '../../../test/large-mesh.js';
import type { Agent } from '../../agent/agent.js';
import type { EclipticError } from '../../runtime/errors.js';

const SEEDS = process.env.ECLIPTIC_SOAK ? 40 : 2;
const IDLE_MS = 1_000;
const ROUNDS = 12;

interface Side {
  readonly life: Life;
  readonly agent: Agent;
  readonly heard: unknown[];
  /** Those that were delivered. */
  readonly sent: number[];
}

/** Pairs of nodes without a link, each node in one pair, with an agent on each side that notes what it hears. */
async function pairsOf(mesh: LargeMesh): Promise<[Side, Side][]> {
  const free = new Set(mesh.lives);
  const pairs: [Side, Side][] = [];
  for (const one of mesh.lives) {
    const other = [...free].find((life) => free.has(one) && life !== one && mesh.state(one, life) === 'idle');
    if (!other) continue;
    free.delete(one);
    free.delete(other);
    pairs.push([sideOf(one), sideOf(other)]);
  }
  for (const side of pairs.flat()) side.agent.onMessage(({ payload }) => void side.heard.push(payload));
  await mesh.world.runtime.advance(3_000);
  return pairs;
}

function sideOf(life: Life): Side {
  return { life, agent: life.node.agent({ id: 'speaker', tier: 1 }), heard: [], sent: [] };
}

describe('a conversation that ends because nothing is said', () => {
  it.each([
    { title: 'over a quick network', faults: { latencyMs: [1, 1] as const }, loss: 0 },
    { title: 'over a slow network that reorders', faults: { latencyMs: [1, 60] as const }, loss: 0 },
    { title: 'over a network that loses every tenth frame', faults: { latencyMs: [1, 30] as const }, loss: 0.1 },
  ])(
    `loses and repeats no message of either side, $title (${SEEDS} seeds) [DR.3]`,
    async ({ faults, loss }) => {
      let ended = 0;
      for (let seed = 1; seed <= SEEDS; seed++) {
        const mesh = await largeMesh(20, { seed, faults, idleMs: IDLE_MS });
        const { runtime, nodes } = mesh.world;
        const pairs = await pairsOf(mesh);
        nodes.network.faults = { ...nodes.network.faults, loss };
        const outcomes: Promise<unknown>[] = [];
        const failures: string[] = [];
        let numbered = 0;
        const say = (from: Side, to: Side) => {
          const number = numbered++;
          const refused = ({ code, details }: EclipticError) => {
            // A node that cannot be reached at this moment is not sent to.
            if (loss === 0 || code !== 'AGENT_UNAVAILABLE') failures.push(`${code} ${details.outcome}`);
          };
          const sent = from.agent.send(`speaker@${to.life.station.key}`, number);
          outcomes.push(sent.then(() => void from.sent.push(number), refused));
        };
        for (let round = 0; round < ROUNDS; round++) {
          for (const [one, other] of pairs) {
            say(one, other);
            // The end is agreed on between one and two ticks after the idle time: most of these messages hit it.
            for (const [from, to] of [
              [one, other],
              [other, one],
            ] as const) {
              const count = Math.floor(runtime.random() * 4);
              const at = IDLE_MS - 50 + runtime.random() * 500;
              for (let index = 0; index < count; index++)
                runtime.setTimer(() => say(from, to), at + index * runtime.random() * 20);
            }
          }
          await runtime.advance(2 * IDLE_MS + runtime.random() * 1_000);
          ended += pairs.filter(([one, other]) => mesh.state(one.life, other.life) === 'idle').length;
        }
        nodes.network.faults = { ...nodes.network.faults, loss: 0 };
        await mesh.world.settled(Promise.all(outcomes));
        expect(failures, `seed ${seed}`).toEqual([]);
        for (const [one, other] of pairs) {
          expect([one.heard, other.heard], `seed ${seed}`).toEqual([other.sent, one.sent]);
        }
        mesh.world.end();
      }
      expect(ended, 'conversations did end meanwhile').toBeGreaterThan(SEEDS * ROUNDS);
    },
    600_000,
  );
});
