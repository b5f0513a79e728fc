import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type DirtyPlace,
  NO_RADAR,
  type RadarEffect,
  type RadarEvent,
  type RadarState,
  step,
} from './radar-machine.js';

const REPOSITORY = 'r';
/** What an observer of a device sees within this time of contact is current. */
const CONTACT_MS = 3_000;
const DELAY_MS = 500;

const place = (device: string, files: readonly string[], more: Partial<DirtyPlace> = {}): DirtyPlace => {
  return {
    device,
    folder: `/${device}`,
    repository: REPOSITORY,
    branch: 'main',
    agents: [`agent@${device}`],
    files,
    ...more,
  };
};

function run(events: readonly RadarEvent[]): { state: RadarState; effects: RadarEffect[] } {
  const effects: RadarEffect[] = [];
  let state = NO_RADAR;
  for (const event of events) {
    const next = step(state, event);
    state = next.state;
    effects.push(...next.effects);
  }
  return { state, effects };
}

describe('the radar', () => {
  it('reports a file that is changed in two worktrees once, and again only for further files [RD.1]', () => {
    const { effects } = run([
      { type: 'place', place: place('a', ['x', 'y']) },
      { type: 'place', place: place('b', ['x']) },
      { type: 'place', place: place('b', ['x', 'z'], { branch: 'other' }) },
      { type: 'place', place: place('b', ['x', 'y', 'z']) },
      { type: 'place', place: place('b', []) },
      { type: 'place', place: place('a', ['x'], { repository: 'another' }) },
    ]);
    expect(effects.map(({ type, overlap: { paths } }) => [type, paths])).toEqual([
      ['overlap', ['x']],
      ['overlap', ['y']],
      ['cleared', ['x', 'y']],
    ]);
  });

  it('reports a changed file that an agent elsewhere has reserved, and not one of its own [RD.2]', () => {
    const leases = [{ id: 'l', glob: 'src/**', holder: 'agent@a' }];
    const { effects } = run([
      { type: 'leases', device: 'a', repository: REPOSITORY, leases },
      { type: 'place', place: place('a', ['src/x']) },
      { type: 'place', place: place('b', ['src/y', 'docs/z']) },
      { type: 'gone', device: 'a' },
    ]);
    expect(effects).toMatchObject([
      { type: 'overlap', overlap: { paths: ['src/y'], lease: { id: 'l' }, places: [{ device: 'b' }] } },
      { type: 'cleared' },
    ]);
  });

  const file = fc.constantFrom('a.ts', 'b.ts', 'src/c.ts', 'src/d.ts');
  const device = fc.integer({ min: 0, max: 1 });
  const act = fc.record({
    afterMs: fc.integer({ min: 0, max: 2_000 }),
    device,
    delayMs: fc.integer({ min: 0, max: DELAY_MS }),
    act: fc.oneof(
      fc.record({ kind: fc.constant('edit' as const), file }),
      fc.record({ kind: fc.constant('revert' as const), file }),
      fc.record({ kind: fc.constant('checkout' as const) }),
      fc.record({ kind: fc.constant('lease' as const), file }),
      fc.record({ kind: fc.constant('release' as const) }),
      fc.record({ kind: fc.constantFrom('cut' as const, 'heal' as const) }),
    ),
  });

  it(`tells both devices of every overlap within ${CONTACT_MS} ms of contact, and of nothing else [RD.3]`, () => {
    const schedule = fc.record({ acts: fc.array(act, { minLength: 1, maxLength: 25 }), disjoint: fc.boolean() });
    fc.assert(
      fc.property(schedule, ({ acts, disjoint }) => {
        const world = new Devices(disjoint);
        for (const one of acts) world.take(one);
        world.heal();
        world.advance(CONTACT_MS);
        const truth = world.truth;
        expect(world.reported(0)).toEqual(truth);
        expect(world.reported(1)).toEqual(truth);
        expect(world.falseAlarms).toEqual([]);
        if (disjoint) expect(truth.filter((one) => one.startsWith('files'))).toEqual([]);
      }),
      { numRuns: process.env.ECLIPTIC_SOAK ? 1_000 : 50 },
    );
  });
});

type Act = { kind: string; file?: string };
interface Sent {
  readonly at: number;
  readonly to: number;
  readonly event: RadarEvent;
}

/** Two devices with a worktree each, which tell each other their state over a link that delays and breaks. */
class Devices {
  readonly falseAlarms: string[] = [];
  readonly #disjoint: boolean;
  readonly #files = [new Set<string>(), new Set<string>()];
  readonly #leases: { id: string; glob: string; holder: string }[][] = [[], []];
  readonly #states: RadarState[] = [NO_RADAR, NO_RADAR];
  /** What each place had so far: an alarm about anything else is false. */
  readonly #ever = [new Set<string>(), new Set<string>()];
  #way: Sent[] = [];
  #now = 0;
  #isCut = false;
  #ids = 0;

  constructor(disjoint: boolean) {
    this.#disjoint = disjoint;
  }

  take({ afterMs, device, delayMs, act }: { afterMs: number; device: number; delayMs: number; act: Act }): void {
    this.advance(afterMs);
    const files = this.#files[device]!;
    const path = act.file === undefined ? '' : this.#disjoint ? `${device}/${act.file}` : act.file;
    if (act.kind === 'edit') files.add(path);
    else if (act.kind === 'revert') files.delete(path);
    else if (act.kind === 'checkout') files.clear();
    else if (act.kind === 'lease')
      this.#leases[device]!.push({ id: `l${this.#ids++}`, glob: path, holder: holderOf(device) });
    else if (act.kind === 'release') this.#leases[device] = [];
    else if (act.kind === 'cut') {
      this.#isCut = true;
      this.#way = [];
    } else this.heal();
    for (const one of files) this.#ever[device]!.add(one);
    this.#tell(device, delayMs);
  }

  heal(): void {
    if (!this.#isCut) return;
    this.#isCut = false;
    for (const device of [0, 1]) this.#tell(device, DELAY_MS);
  }

  advance(ms: number): void {
    const until = this.#now + ms;
    // A conversation delivers in order.
    for (const sent of this.#way.filter(({ at }) => at <= until)) this.#give(sent.to, sent.event);
    this.#way = this.#way.filter(({ at }) => at > until);
    this.#now = until;
  }

  /** What overlaps really, worked out in another way. */
  get truth(): string[] {
    const [mine, other] = [[...this.#files[0]!], [...this.#files[1]!]];
    const both = mine.filter((path) => other.includes(path)).map((path) => `files ${path}`);
    const leased = [0, 1].flatMap((device) =>
      this.#leases[1 - device]!.flatMap(({ id, glob }) =>
        [...this.#files[device]!].filter((path) => path === glob).map((path) => `lease ${id} ${path}`),
      ),
    );
    return [...both, ...leased].sort();
  }

  reported(device: number): string[] {
    return [...this.#states[device]!.overlaps.values()]
      .flatMap(({ lease, paths }) => paths.map((path) => (lease ? `lease ${lease.id} ${path}` : `files ${path}`)))
      .sort();
  }

  #tell(device: number, delayMs: number): void {
    const state: RadarEvent[] = [
      { type: 'place', place: place(`${device}`, [...this.#files[device]!], { agents: [holderOf(device)] }) },
      { type: 'leases', device: `${device}`, repository: REPOSITORY, leases: this.#leases[device]! },
    ];
    for (const event of state) {
      this.#give(device, event);
      const at = Math.max(this.#now + delayMs, this.#way.findLast(({ to }) => to !== device)?.at ?? 0);
      if (!this.#isCut) this.#way.push({ at, to: 1 - device, event });
    }
  }

  #give(device: number, event: RadarEvent): void {
    const { state, effects } = step(this.#states[device]!, event);
    this.#states[device] = state;
    for (const { type, overlap } of effects) {
      if (type !== 'overlap') continue;
      for (const { device: at } of overlap.places) {
        const never = overlap.paths.filter((path) => !this.#ever[Number(at)]!.has(path));
        this.falseAlarms.push(...never.map((path) => `${path} on ${at}`));
      }
      if (overlap.places.length === 1 && overlap.places[0]!.agents.includes(overlap.lease!.holder)) {
        this.falseAlarms.push(`own lease ${overlap.lease!.id}`);
      }
    }
  }
}

function holderOf(device: number): string {
  return `agent@${device}`;
}
