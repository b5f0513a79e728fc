import { describe, expect, it } from 'vitest';
import type { MessageLine } from '../../src/http/dashboard/facts.js';
import type { AgentRow } from '../../src/node/control/rows.js';
import { bodyAt, type Layout, layOut, neighbour } from '../../web/orrery/layout.js';
import { FLOW_RATE, Motion } from '../../web/orrery/motion.js';
import { healthOf, MAX_BODIES, type Sky, skyOf } from '../../web/orrery/sky.js';

const OTHER = 'b'.repeat(64);
const OWN = { node: 'a'.repeat(64), name: 'desk' };
const TIERS = [0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3] as const;

function agent(id: string, tier: AgentRow['tier'], more: Partial<AgentRow> = {}): AgentRow {
  return {
    ...{ id, name: id, tier, capabilities: [], sandbox: null, origin: 'local', node: null, description: '' },
    ...{ state: 'ready', failure: null, reason: null, fix: null, workers: [], load: { queued: 0, working: 0 } },
    ...more,
  };
}

function many(count: number, more: Partial<AgentRow> = {}): AgentRow[] {
  return Array.from({ length: count }, (_, at) => agent(`agent-${at}`, TIERS[at % TIERS.length]!, more));
}

function skyWith(agents: readonly AgentRow[], more: Partial<Parameters<typeof skyOf>[0]> = {}): Sky {
  return skyOf({ own: OWN, agents, peers: [], leases: [], ...more });
}

function lay(sky: Sky, { width = 792, height = 470, opened = new Set<string>() } = {}): Layout {
  const texts = { counts: () => 'counts', title: (agents: number) => `${agents} agents, away` };
  return layOut(sky, { width, height, opened, measure: (text) => text.length * 6.6, ...texts });
}

describe('the layout of the orrery', () => {
  const ROSTER = many(21);

  it.each([
    [792, 470],
    [400, 560],
    [1_400, 900],
  ])('gives 21 agents names that overlap nothing on %i by %i pixels [FC.50]', (width, height) => {
    const { bodies, labels } = lay(skyWith(ROSTER), { width, height });
    expect(bodies).toHaveLength(21);
    expect(labels).toHaveLength(21);
    const boxes = labels.map(({ x, y, width: size }) => [x - size / 2, y - 6, x + size / 2, y + 6] as const);
    for (const [at, [left, top, right, bottom]] of boxes.entries()) {
      expect(left >= 0 && top >= 0 && right <= width && bottom <= height).toBe(true);
      for (const [l, t, r, b] of boxes.slice(at + 1))
        expect(left < r && l < right && top < b && t < bottom).toBe(false);
      for (const [number, { x, y, r }] of bodies.entries()) {
        if (number === labels[at]!.body) continue;
        expect(x + r > left && x - r < right && y + r > top && y - r < bottom, labels[at]!.text).toBe(false);
      }
    }
  });

  it('puts tier 0 at the centre, and the other tiers on orbits from the inside to the outside [FC.50]', () => {
    const { bodies, systems } = lay(skyWith(ROSTER));
    const [{ x, y, rx, ry }] = systems as [Layout['systems'][number]];
    const far = (tier: number) =>
      bodies.filter(({ star }) => star!.tier === tier).map((body) => Math.hypot((body.x - x) / rx, (body.y - y) / ry));
    expect(far(0)).toEqual([0]);
    const orbits = [1, 2, 3].map((tier) => far(tier));
    for (const orbit of orbits) for (const share of orbit) expect(share).toBeCloseTo(orbit[0]!);
    expect(orbits[0]![0]!).toBeLessThan(orbits[1]![0]!);
    expect(orbits[1]![0]!).toBeLessThan(orbits[2]![0]!);
    expect(orbits[2]![0]!).toBeCloseTo(1);
  });

  it('makes each node a system of its own, the own one largest, and marks sandboxes and load [FC.50]', () => {
    const peers = [{ node: OTHER, name: 'laptop', state: 'away' }];
    const busy = agent('busy', 2, { load: { queued: 4, working: 5 }, sandbox: 'lab' });
    const remote = agent('far', 1, { node: OTHER, origin: 'remote', state: 'unreachable' });
    const { systems, bodies, at } = lay(skyWith([...ROSTER, busy, remote], { peers }));
    expect(systems.map(({ node, count }) => [node.name, node.connected, count])).toEqual([
      ['desk', true, 22],
      ['laptop', false, 1],
    ]);
    expect(systems[0]!.rx * systems[0]!.ry).toBeGreaterThan(systems[1]!.rx * systems[1]!.ry);
    expect(bodies[at.get('busy')!]!.r).toBeGreaterThan(bodies[at.get('agent-4')!]!.r);
    expect(bodies[at.get(`far@${OTHER}`)!]).toMatchObject({ system: 1, health: 'away' });
    expect(systems[0]!.orbits.map(({ dashed }) => dashed.length)).toEqual([0, 1, 0]);
  });

  it(`makes a node with more than ${MAX_BODIES} agents one body until it is opened [FC.50]`, () => {
    expect(lay(skyWith(many(MAX_BODIES))).bodies).toHaveLength(MAX_BODIES);
    const closed = lay(skyWith(many(500)));
    expect(closed.bodies).toMatchObject([{ star: undefined, text: 'counts' }]);
    expect(closed.at.get('agent-7')).toBe(0);
    const { bodies } = lay(skyWith(many(500)), { opened: new Set(['']) });
    expect(bodies).toHaveLength(500);
    const near = bodies.flatMap((a, at) =>
      bodies.slice(at + 1).filter((b) => Math.hypot(a.x - b.x, a.y - b.y) < a.r + b.r - 0.5),
    );
    expect(near).toEqual([]);
  });

  it('gives many agents of one tier several orbits, tier 0 too, and keeps names off the headings [FC.50]', () => {
    const suns = Array.from({ length: 200 }, (_, at) => agent(`sun-${at}`, 0));
    const { bodies, labels } = lay(skyWith(suns), { opened: new Set(['']) });
    const near = bodies.flatMap((a, at) =>
      bodies.slice(at + 1).filter((b) => Math.hypot(a.x - b.x, a.y - b.y) < a.r + b.r - 0.5),
    );
    expect(near).toEqual([]);
    expect(labels.length).toBeGreaterThan(20);
    const peers = [1, 2, 3].map((at) => ({ node: `${at}`.repeat(64), name: `laptop-${at}`, state: 'away' }));
    const remote = peers.flatMap(({ node }) => many(16, { node, origin: 'remote', state: 'unreachable' }));
    const { systems, labels: names } = lay(skyWith([...ROSTER, ...remote], { peers }));
    for (const { title, count } of systems) {
      const right = title.x + (title.text.length + `${count} agents, away`.length) * 6.6 + 8;
      for (const { x, y, width, text } of names) {
        const meets = x + width / 2 > title.x && x - width / 2 < right && Math.abs(y - title.y) < 12;
        expect(meets, text).toBe(false);
      }
    }
  });

  it('bonds agents that hold leases in one repository [FC.50]', () => {
    const lease = (holder: string, repository: string) => ({
      holder,
      glob: 'src/**',
      repository,
      repositoryName: repository,
    });
    const leases = [
      lease(`agent-1@${OWN.node}`, 'one'),
      lease(`agent-2@${OWN.node}`, 'one'),
      lease(`agent-3@${OWN.node}`, 'two'),
    ];
    const sky = skyWith(ROSTER, { leases });
    expect(lay(sky).bonds).toEqual([{ from: 'agent-1', to: 'agent-2', repository: 'one' }]);
    expect(sky.stars.find(({ address }) => address === 'agent-3')!.leases).toEqual(['two: src/**']);
  });

  it('finds bodies by pointer, and the next one by arrow key [FC.53]', () => {
    const layout = lay(skyWith(ROSTER));
    const { bodies } = layout;
    for (const [index, { x, y }] of bodies.entries()) expect(bodyAt(layout, x + 1, y)).toBe(index);
    expect(bodyAt(layout, 1, 1)).toBeUndefined();
    expect(neighbour(layout, undefined, 'ArrowLeft')).toBe(0);
    expect(neighbour(layout, 0, 'x')).toBeUndefined();
    const right = bodies[neighbour(layout, 0, 'ArrowRight')!]!;
    expect(right.x).toBeGreaterThan(bodies[0]!.x);
    // Arrow keys reach every body.
    const seen = new Set([0]);
    for (const from of seen) {
      for (const key of ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown']) seen.add(neighbour(layout, from, key)!);
    }
    expect(seen.size).toBe(21);
  });

  it('shows the trouble of a worker behind a good state [FC.50]', () => {
    const worker = (state: string) => ({ id: 'w', type: 'acp', state });
    expect(healthOf({ state: 'ready', workers: [worker('healthy')] })).toBe('good');
    expect(healthOf({ state: 'ready', workers: [worker('healthy'), worker('unavailable')] })).toBe('warn');
    expect(healthOf({ state: 'unstaffed', workers: [] })).toBe('hollow');
    expect(healthOf({ state: 'unreachable', workers: [], fix: null })).toBe('away');
    expect(healthOf({ state: 'unreachable', workers: [], fix: 'ecliptic staff' })).toBe('hollow');
    expect(healthOf({ state: 'failed', workers: [] })).toBe('bad');
  });
});

describe('the motion of the orrery', () => {
  const layout = lay(skyWith(many(21)));
  let number = 0;
  const line = (from: string, to: string, code: string | null = null, seq: number | null = null): MessageLine => {
    const about = { thread: null, reason: null, text: null };
    return { id: `m${number++}`, seq, at: 1_000, from, to, type: 'request', code, ...about };
  };

  it('lights an arc for each new message, and none for those of the past [FC.51]', () => {
    const motion = new Motion();
    const past = [line('agent-1', 'agent-2', null, 7), line('agent-1', 'agent-3', null, 6)];
    expect(motion.take(past, layout, 0, false)).toBe(false);
    const lines = [
      line('agent-1', '*'),
      line('agent-4', 'agent-1', 'TIER_VIOLATION'),
      line('agent-1', 'agent-4'),
      ...past,
    ];
    expect(motion.take(lines, layout, 100, false)).toBe(true);
    expect(motion.arcs.map(({ isRefused }) => isRefused)).toEqual([false, true]);
    for (const { ms } of motion.arcs) expect(ms >= 150 && ms <= 400).toBe(true);
    expect(motion.waves).toHaveLength(1);
    expect(motion.counts).toEqual({ arcs: 1, refusals: 1, waves: 1 });
    expect(motion.take(lines, layout, 120, false)).toBe(false);
    expect(motion.advance(200)).toBe(true);
    expect(motion.advance(1_000)).toBe(false);
  });

  it('shows many messages as flows, scaled to the count of the node [FC.51]', () => {
    const motion = new Motion();
    motion.take([], layout, 0, false);
    let lines: MessageLine[] = [];
    for (let sent = 0; sent <= FLOW_RATE; sent++) {
      lines = [line('agent-1', sent % 3 === 0 ? 'agent-4' : 'agent-5'), ...lines];
      motion.take(lines, layout, 10 + sent, false);
    }
    expect(motion.isFlow(undefined, 100, false)).toBe(true);
    const flows = motion.flows(layout, 310, 100);
    expect(flows.map(({ from, to }) => [layout.bodies[from]!.id, layout.bodies[to]!.id])).toEqual([
      ['agent-1', 'agent-5'],
      ['agent-1', 'agent-4'],
    ]);
    expect(flows.reduce((sum, { rate }) => sum + rate, 0)).toBeCloseTo(310);
    expect(motion.isFlow(undefined, 2_000, false)).toBe(false);
    expect(motion.flows(layout, undefined, 2_000)).toEqual([]);
  });

  it('has no arcs where less motion is preferred [FC.52]', () => {
    const motion = new Motion();
    motion.take([], layout, 0, true);
    expect(motion.take([line('agent-1', 'agent-4')], layout, 10, true)).toBe(true);
    expect([motion.arcs, motion.waves]).toEqual([[], []]);
    expect(motion.flows(layout, undefined, 20)).toHaveLength(1);
    expect(motion.advance(20)).toBe(false);
  });
});
