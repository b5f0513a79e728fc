import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tries } from '../../../test/evidence.js';
import { comparable, type DeviceRadar, overlapsOf } from '../../coding-agents/radar/device-radar.js';
import type { RadarEffect } from '../../coding-agents/radar/radar-machine.js';
import { RadarPicture } from '../../coding-agents/radar/radar-picture.js';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import type { OwnerDevice, OwnerDevices } from './owner-devices.js';
import { RadarReports } from './radar-reports.js';

const REPOSITORY = 'r';
/** What both devices know within this time of contact is right. */
const CONTACT_MS = 3_000;
const DELAY_MS = 300;
const NAMES = ['a', 'b'] as const;

type Kind = 'edit' | 'revert' | 'checkout' | 'lease' | 'release' | 'cut' | 'heal' | 'restart' | 'leave' | 'busy';

interface Act {
  readonly afterMs: number;
  readonly device: number;
  readonly kind: Kind;
  readonly file: string;
}

/** A device with one worktree, whose picture of both is made by reports alone. */
class Device {
  readonly name: string;
  readonly files = new Set<string>();
  /** What it had so far: an alarm about anything else is false. */
  readonly ever = new Set<string>();
  leases: { id: string; glob: string; holder: string }[] = [];
  isThere = true;
  mode: 'watched' | 'once' = 'watched';
  reports!: RadarReports;
  picture!: RadarPicture;
  connected: ((node: string) => void) | undefined;
  #changed: (() => void) | undefined;
  readonly #link: Link;

  constructor(name: string, link: Link) {
    this.name = name;
    this.#link = link;
  }

  get holder(): string {
    return `agent@${this.name}`;
  }

  /** Begins a run, which knows nothing of an earlier one. */
  start(): void {
    this.reports?.close();
    this.picture = new RadarPicture((effect) => this.#link.check(effect));
    const { picture } = this;
    const devices: Pick<OwnerDevices, 'list' | 'ask' | 'onConnected' | 'onRemoved'> = {
      list: () => this.#link.list(this),
      ask: (_node, _method, params) => this.#link.ask(this, params) as never,
      onConnected: (listener) => {
        this.connected = listener;
      },
      onRemoved: () => {},
    };
    const seen = () => this.seen;
    this.reports = new RadarReports({
      runtime: this.#link.runtime,
      devices,
      radar: {
        get seen() {
          return seen();
        },
        onChange: (listener) => {
          this.#changed = listener;
        },
        heard: (device, report) => picture.heard(device, report),
        gone: (device) => picture.apply({ type: 'gone', device }),
      },
    });
    this.changed();
  }

  get seen(): DeviceRadar {
    const place = {
      ...{ device: this.name, folder: `/${this.name}`, repository: REPOSITORY, repositoryName: 'it', branch: 'main' },
      ...{ agents: [this.holder], files: [...this.files], more: 0, mode: this.mode },
    };
    const leases = this.leases.length === 0 ? [] : [{ repository: REPOSITORY, leases: this.leases }];
    return { places: this.isThere ? [place] : [], leases, skipped: [] };
  }

  changed(): void {
    for (const file of this.files) this.ever.add(file);
    const { places, leases } = this.seen;
    const device = this.name;
    for (const place of places) this.picture.apply({ type: 'place', place: comparable(place) });
    if (places.length === 0) this.picture.apply({ type: 'gone', device, folder: `/${device}` });
    this.picture.leases(device, leases);
    this.#changed?.();
  }

  get reported(): string[] {
    return [...this.picture.state.overlaps.values()]
      .flatMap(({ lease, paths }) => paths.map((path) => (lease ? `lease ${lease.id} ${path}` : `files ${path}`)))
      .sort();
  }
}

/** Two devices, and a link that delays, breaks, and now and then refuses. */
class Link {
  readonly runtime: SimulatedRuntime;
  readonly falseAlarms: string[] = [];
  readonly devices: readonly [Device, Device];
  isCut = false;
  isBusy = false;
  /** A break ends every question that is under way. */
  #breaks = new Set<() => void>();

  constructor(seed: number) {
    this.runtime = new SimulatedRuntime({ seed });
    this.devices = [new Device(NAMES[0], this), new Device(NAMES[1], this)];
    for (const device of this.devices) device.start();
  }

  other(device: Device): Device {
    return this.devices[device === this.devices[0] ? 1 : 0];
  }

  list(device: Device): OwnerDevice[] {
    const { name } = this.other(device);
    return [{ node: name, name, connected: !this.isCut, lastHeardAt: null }];
  }

  ask(from: Device, params: unknown): Promise<null> {
    const { runtime } = this;
    const text = JSON.stringify(params);
    const lost = new EclipticError('PEER_UNREACHABLE', 'the connection was interrupted');
    return new Promise((resolve, reject) => {
      if (this.isCut) return reject(lost);
      if (this.isBusy && runtime.random() < 0.3) return reject(new EclipticError('RATE_LIMITED', 'too often'));
      let timer = runtime.setTimer(() => {
        this.other(from).reports.take(from.name, JSON.parse(text));
        timer = runtime.setTimer(() => end(resolve, null), runtime.random() * DELAY_MS);
      }, runtime.random() * DELAY_MS);
      const end = <T>(settle: (value: T) => void, value: T) => {
        timer.cancel();
        this.#breaks.delete(broken);
        settle(value);
      };
      const broken = () => end(reject, lost);
      this.#breaks.add(broken);
    });
  }

  cut(): void {
    this.isCut = true;
    for (const broken of [...this.#breaks]) broken();
  }

  heal(): void {
    if (!this.isCut) return;
    this.isCut = false;
    for (const device of this.devices) device.connected!(this.other(device).name);
  }

  check({ type, overlap: { places, paths, lease } }: RadarEffect): void {
    if (type !== 'overlap') return;
    for (const { device: at } of places) {
      const { ever } = this.devices.find(({ name }) => name === at)!;
      this.falseAlarms.push(...paths.filter((path) => !ever.has(path)).map((path) => `${path} on ${at}`));
    }
    if (places.length === 1 && places[0]!.agents.includes(lease!.holder)) this.falseAlarms.push(`lease ${lease!.id}`);
  }

  /** What overlaps really, worked out in another way. */
  get truth(): string[] {
    const [one, two] = this.devices;
    const files = ({ isThere, files: all }: Device) => (isThere ? [...all] : []);
    const both = files(one).filter((path) => files(two).includes(path));
    const leased = this.devices.flatMap((device) =>
      this.other(device).leases.flatMap(({ id, glob }) =>
        files(device)
          .filter((path) => path === glob)
          .map((path) => `lease ${id} ${path}`),
      ),
    );
    return [...both.map((path) => `files ${path}`), ...leased].sort();
  }
}

async function run(link: Link, acts: readonly Act[], disjoint: boolean): Promise<void> {
  for (const [index, { afterMs, device: at, kind, file }] of acts.entries()) {
    await link.runtime.advance(afterMs);
    const device = link.devices[at]!;
    const path = disjoint ? `${at}/${file}` : file;
    if (kind === 'edit') device.files.add(path);
    else if (kind === 'revert') device.files.delete(path);
    else if (kind === 'checkout') device.files.clear();
    else if (kind === 'lease')
      device.leases = [...device.leases, { id: `l${index}`, glob: path, holder: device.holder }];
    else if (kind === 'release') device.leases = [];
    else if (kind === 'leave') device.isThere = !device.isThere;
    else if (kind === 'busy') link.isBusy = true;
    else if (kind === 'heal') link.heal();
    else link.cut();
    if (kind === 'restart') {
      device.start();
      link.heal();
    }
    device.changed();
  }
  link.isBusy = false;
  link.heal();
  await link.runtime.advance(CONTACT_MS);
}

describe('radar reports', () => {
  const kind = fc.constantFrom<Kind>(
    ...(['edit', 'edit', 'edit', 'revert', 'checkout', 'lease', 'release'] as const),
    ...(['cut', 'heal', 'restart', 'leave', 'busy'] as const),
  );
  const act = fc.record({
    afterMs: fc.integer({ min: 0, max: 2_000 }),
    device: fc.integer({ min: 0, max: 1 }),
    file: fc.constantFrom('a.ts', 'b.ts', 'src/c.ts', 'src/d.ts'),
    kind,
  });
  const schedule = fc.record({
    acts: fc.array(act, { minLength: 1, maxLength: 25 }),
    disjoint: fc.boolean(),
    seed: fc.integer({ min: 1, max: 2 ** 30 }),
  });

  it(`tell both devices of every overlap within ${CONTACT_MS} ms of contact, and of nothing else [RD.3]`, async () => {
    await fc.assert(
      fc.asyncProperty(schedule, async ({ acts, disjoint, seed }) => {
        const link = new Link(seed);
        await run(link, acts, disjoint);
        const { truth } = link;
        for (const device of link.devices) expect(device.reported).toEqual(truth);
        expect(link.falseAlarms).toEqual([]);
        if (disjoint) expect(truth.filter((one) => one.startsWith('files'))).toEqual([]);
        for (const { reports } of link.devices) reports.close();
      }),
      { numRuns: tries(process.env.ECLIPTIC_SOAK ? 20_000 : 1_000, 'random histories') },
    );
  }, 120_000);

  it('show what was left behind where nothing is at work, and find no overlap with it [RD.2]', async () => {
    const link = new Link(1);
    const [one, two] = link.devices;
    for (const device of link.devices) device.files.add('a.ts');
    one.mode = 'once';
    for (const device of link.devices) device.changed();
    await link.runtime.advance(CONTACT_MS);
    expect(two.picture.state.overlaps.size).toBe(0);
    const seen = link.devices.map((device) => ({ device: device.name, ...device.seen }));
    expect(overlapsOf(seen)).toEqual([]);
    expect(
      overlapsOf(seen.map((all) => ({ ...all, places: all.places.map((place) => ({ ...place, mode: 'watched' })) }))),
    ).toMatchObject([{ paths: ['a.ts'] }]);
  });

  it('take no agents and no leases of other nodes, and refuse what is no report', async () => {
    const link = new Link(1);
    const [one, two] = link.devices;
    await link.runtime.advance(CONTACT_MS);
    const { places } = one.seen;
    const leases = [
      {
        repository: REPOSITORY,
        leases: [
          { id: 'l', glob: 'x', holder: two.holder },
          { id: 'm', glob: '{'.repeat(900), holder: one.holder },
        ],
      },
    ];
    const forged = places.map((place) => ({ ...place, device: 'b', agents: [two.holder, one.holder] }));
    two.reports.take('a', { folders: ['/a'], places: forged, leases });
    const { state } = two.picture;
    expect(state.places.get('a\n/a')).toMatchObject({ device: 'a', agents: [one.holder] });
    expect([...state.leases.values()].flatMap((held) => held.leases)).toEqual([]);
    for (const wrong of [null, {}, { folders: [], places: [{}] }, { folders: 'x', places: [] }]) {
      expect(() => two.reports.take('a', wrong)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
    }
  });

  it('send a large folder alone, and nothing again that has not changed', async () => {
    const link = new Link(1);
    const [one, two] = link.devices;
    await link.runtime.advance(CONTACT_MS);
    const sent: unknown[] = [];
    const take = two.reports.take.bind(two.reports);
    two.reports.take = (node, report) => {
      sent.push(report);
      take(node, report);
    };
    for (let n = 0; n < 1_000; n++) one.files.add(`${'long/'.repeat(40)}${n}.ts`);
    one.changed();
    one.changed();
    await link.runtime.advance(CONTACT_MS);
    expect(sent).toMatchObject([{ folders: ['/a'], places: [{ folder: '/a' }] }]);
    expect(two.picture.state.places.get('a\n/a')?.files).toHaveLength(1_000);
  });
});
