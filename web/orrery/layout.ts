import { placeLabels } from './labels.js';
import { type Bond, type Health, MAX_BODIES, type Sky, type SkyNode, type Star } from './sky.js';

/** Positions of all bodies, orbits and labels, in CSS pixels. Pure: the same sky gives the same picture. */

export interface Body {
  /** The address of an agent, or `node:KEY` for a node that is one body. */
  readonly id: string;
  /** Undefined for a node that is one body. */
  readonly star: Star | undefined;
  readonly system: number;
  readonly x: number;
  readonly y: number;
  readonly r: number;
  readonly health: Health;
  readonly isWorking: boolean;
  readonly text: string;
}

export interface Orbit {
  readonly tier: number;
  readonly rx: number;
  readonly ry: number;
  /** Parts beside agents of a sandbox, as angles. */
  readonly dashed: readonly (readonly [from: number, to: number])[];
  /** Where the name of the tier is written; undefined for further rings of a tier. */
  readonly label: { readonly x: number; readonly y: number } | undefined;
}

export interface System {
  readonly node: SkyNode;
  readonly x: number;
  readonly y: number;
  readonly rx: number;
  readonly ry: number;
  readonly orbits: readonly Orbit[];
  readonly count: number;
  readonly isCollapsed: boolean;
  readonly title: { readonly x: number; readonly y: number; readonly text: string };
}

export interface Label {
  readonly body: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly text: string;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly systems: readonly System[];
  readonly bodies: readonly Body[];
  readonly labels: readonly Label[];
  readonly bonds: readonly Bond[];
  /** The body of each address; agents of a collapsed node share one. */
  readonly at: ReadonlyMap<string, number>;
}

export interface LayoutInit {
  readonly width: number;
  readonly height: number;
  /** Nodes whose agents are shown though there are many. */
  readonly opened: ReadonlySet<string>;
  /** The width of a label's text. */
  readonly measure: (text: string) => number;
  readonly counts: (working: number, unstaffed: number) => string;
  /** What stands beside the name of a node. */
  readonly title: (agents: number, connected: boolean) => string;
}

const PADDING = 20;
const TITLE_HEIGHT = 20;
/** The room for bodies and labels beyond the outermost orbit. */
const EDGE = { x: 40, y: 22 };
const BASE_RADIUS = 5.5;
const SUN_RADIUS = 9;
const MAX_RADIUS = 16;
/** The distance between neighbours below which a tier gets a further ring. */
const SPACING = 15;
/** Between neighbours of the name of a tier. */
const LABEL_ROOM = 40;
type Tier = Star['tier'];
const TIERS: readonly Tier[] = [1, 2, 3];
/** More agents of tier 0 have orbits of their own around the centre. */
const MAX_SUNS = 6;

interface Cell {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export function layOut(sky: Sky, init: LayoutInit): Layout {
  const { width, height } = init;
  const bodies: Body[] = [];
  const at = new Map<string, number>();
  const cells = cellsOf(sky.nodes.length, width, height);
  const systems = sky.nodes.map((node, index) =>
    systemOf({
      node,
      index,
      cell: cells[index]!,
      stars: sky.stars.filter((star) => star.node === node.key),
      init,
      bodies,
      at,
    }),
  );
  const bonds = sky.bonds.filter(({ from, to }) => at.has(from) && at.has(to) && at.get(from) !== at.get(to));
  return { width, height, systems, bodies, labels: placeLabels(bodies, systems, init), bonds, at };
}

/** The own node has most of the room; the others share the rest, in the grid that gives each the most. */
function cellsOf(count: number, width: number, height: number): Cell[] {
  if (count <= 1) return [{ x: 0, y: 0, width, height }];
  const isWide = width >= height;
  const share = count === 2 ? 0.6 : 0.64;
  const [ownWidth, ownHeight] = isWide ? [width * share, height] : [width, height * share];
  const rest = isWide
    ? { x: ownWidth, y: 0, width: width - ownWidth, height }
    : { x: 0, y: ownHeight, width, height: height - ownHeight };
  const others = count - 1;
  let best = { columns: 1, rows: others, size: 0 };
  for (let columns = 1; columns <= others; columns++) {
    const rows = Math.ceil(others / columns);
    const size = Math.min(rest.width / columns, rest.height / rows);
    if (size > best.size) best = { columns, rows, size };
  }
  const [cellWidth, cellHeight] = [rest.width / best.columns, rest.height / best.rows];
  const cells = Array.from({ length: others }, (_, index): Cell => {
    const [column, row] = [index % best.columns, Math.floor(index / best.columns)];
    return { x: rest.x + column * cellWidth, y: rest.y + row * cellHeight, width: cellWidth, height: cellHeight };
  });
  return [{ x: 0, y: 0, width: ownWidth, height: ownHeight }, ...cells];
}

interface SystemInit {
  readonly node: SkyNode;
  readonly index: number;
  readonly cell: Cell;
  readonly stars: readonly Star[];
  readonly init: LayoutInit;
  /** Both are added to. */
  readonly bodies: Body[];
  readonly at: Map<string, number>;
}

function systemOf({ node, index, cell, stars, init, bodies, at }: SystemInit): System {
  const x = cell.x + cell.width / 2;
  const y = cell.y + (cell.height + TITLE_HEIGHT) / 2;
  const rx = Math.max(30, cell.width / 2 - EDGE.x);
  const high = Math.max(30, (cell.height - TITLE_HEIGHT) / 2 - EDGE.y);
  // The systems of other nodes stay round; the own one takes all the room.
  const ry = index === 0 ? high : Math.min(high, rx * 1.2);
  const title = { x: cell.x + PADDING, y: cell.y + PADDING, text: node.name };
  const base = { node, x, y, title, count: stars.length };
  if (stars.length > MAX_BODIES && !init.opened.has(node.key)) {
    const id = nodeBody(node.key);
    for (const { address } of stars) at.set(address, bodies.length);
    at.set(id, bodies.length);
    const working = stars.filter((star) => star.working > 0).length;
    const unstaffed = stars.filter(({ state }) => state === 'unstaffed').length;
    const text = init.counts(working, unstaffed);
    const r = Math.min(Math.min(rx, ry) * 0.6, 16 + 1.6 * Math.sqrt(stars.length));
    const about = { star: undefined, system: index, health: worst(stars), isWorking: working > 0 };
    bodies.push({ id, x, y, r, text, ...about });
    return { ...base, rx: r + 8, ry: r + 8, orbits: [], isCollapsed: true };
  }
  const orbits: Orbit[] = [];
  const centre = stars.filter(({ tier }) => tier === 0);
  const suns = centre.length > MAX_SUNS ? [] : centre;
  const put = (star: Star, px: number, py: number, most: number) => {
    at.set(star.address, bodies.length);
    const least = suns.includes(star) ? SUN_RADIUS : BASE_RADIUS;
    const r = Math.min(most, MAX_RADIUS, least + 2 * Math.sqrt(star.queued + star.working));
    const about = { health: star.health, isWorking: star.working > 0, text: star.name };
    bodies.push({ id: star.address, star, system: index, x: px, y: py, r, ...about });
  };
  const rings = ringsOf(stars, suns.length === centre.length ? TIERS : [0, ...TIERS], rx, ry);
  // Several agents of tier 0 share the centre.
  const core = suns.length > 1 ? Math.min(rings[0]!.share * 0.5, 0.16) : 0;
  const room = (perimeter(core * rx, core * ry) / Math.max(1, suns.length)) * 0.4;
  suns.forEach((star, number) => {
    const angle = (number / suns.length) * 2 * Math.PI + Math.PI;
    put(star, x + core * rx * Math.cos(angle), y + core * ry * Math.sin(angle), suns.length > 1 ? room : MAX_RADIUS);
  });
  const gap = rings.length > 1 ? rings[1]!.share - rings[0]!.share : 1;
  for (const { tier, share, members, isFirst } of rings) {
    const orbit = { rx: rx * share, ry: ry * share };
    // Each orbit begins elsewhere, so that labels of neighbouring orbits are not in one line.
    const phase = -Math.PI / 2 + (tier - 1) * 0.45 + 0.3;
    const step = isFirst ? stepBesideLabel(members.length, orbit) : (2 * Math.PI) / Math.max(1, members.length);
    // Neighbours are nearest at the ends of the longer axis, and orbits at those of the shorter one.
    const nearest = Math.min(Math.min(orbit.rx, orbit.ry) * Math.min(step, 2), Math.min(rx, ry) * gap);
    const most = Math.max(1.6, nearest * 0.45);
    const dashed: [number, number][] = [];
    members.forEach((star, number) => {
      const angle = phase + number * step;
      put(star, x + orbit.rx * Math.cos(angle), y + orbit.ry * Math.sin(angle), most);
      if (star.sandbox !== null) dashed.push([angle - Math.min(step, 1) / 2, angle + Math.min(step, 1) / 2]);
    });
    orbits.push({
      tier,
      ...orbit,
      dashed,
      label: isFirst ? tierLabel(x, y, orbit, phase, step * (members.length - 1)) : undefined,
    });
  }
  return { ...base, rx, ry, orbits, isCollapsed: false };
}

/** Evenly around, but for the room of the tier's name between the last body and the first. */
function stepBesideLabel(count: number, { rx, ry }: { rx: number; ry: number }): number {
  if (count <= 1) return 2 * Math.PI;
  return Math.min((2 * Math.PI) / count, (2 * Math.PI - LABEL_ROOM / Math.min(rx, ry)) / (count - 1));
}

/** Half-way from the last body to the first. */
function tierLabel(x: number, y: number, { rx, ry }: { rx: number; ry: number }, phase: number, taken: number) {
  const angle = phase - (2 * Math.PI - Math.max(0, Math.min(taken, 2 * Math.PI))) / 2;
  return { x: x + rx * Math.cos(angle), y: y + ry * Math.sin(angle) };
}

interface Ring {
  readonly tier: Tier;
  /** Of the outermost radius. */
  readonly share: number;
  readonly members: readonly Star[];
  /** The innermost ring of its tier. */
  readonly isFirst: boolean;
}

/** One ring for each tier, and further ones where its agents would be too close. */
function ringsOf(stars: readonly Star[], tiers: readonly Tier[], rx: number, ry: number): Ring[] {
  const groups = tiers.map((tier) => stars.filter((star) => star.tier === tier));
  const counts = tiers.map(() => 1);
  const most = Math.max(tiers.length, Math.floor((Math.min(rx, ry) * 0.75) / SPACING));
  for (;;) {
    const shares = sharesOf(counts);
    const crowded = groups
      .map((group, index) => {
        const rings = shares[index]!;
        const length = rings.reduce((sum, share) => sum + perimeter(rx * share, ry * share), 0);
        return { index, crowd: (group.length * SPACING) / length };
      })
      .sort((a, b) => b.crowd - a.crowd)[0]!;
    const total = counts.reduce((sum, count) => sum + count, 0);
    if (crowded.crowd <= 1 || total >= most) return spread({ groups, tiers, shares }, rx, ry);
    counts[crowded.index]!++;
  }
}

/** The radii of each tier's rings: evenly from the inside to the outside. */
function sharesOf(counts: readonly number[]): number[][] {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let number = 0;
  const first = 1 / (total + 0.4);
  return counts.map((count) =>
    Array.from({ length: count }, () => first * 1.4 + (1 - first * 1.4) * (total === 1 ? 1 : number++ / (total - 1))),
  );
}

interface Crowd {
  readonly groups: readonly Star[][];
  readonly tiers: readonly Tier[];
  readonly shares: readonly number[][];
}

function spread({ groups, tiers, shares }: Crowd, rx: number, ry: number): Ring[] {
  return tiers.flatMap((tier, index) => {
    const [group, rings] = [groups[index]!, shares[index]!];
    const lengths = rings.map((share) => perimeter(rx * share, ry * share));
    const whole = lengths.reduce((sum, length) => sum + length, 0);
    let taken = 0;
    let passed = 0;
    return rings.map((share, ring): Ring => {
      passed += lengths[ring]!;
      const end = ring === rings.length - 1 ? group.length : Math.round((group.length * passed) / whole);
      const members = group.slice(taken, end);
      taken = end;
      return { tier, share, members, isFirst: ring === 0 };
    });
  });
}

/** Ramanujan's approximation for an ellipse. */
function perimeter(a: number, b: number): number {
  return Math.PI * (3 * (a + b) - Math.sqrt((3 * a + b) * (a + 3 * b)));
}

const WORST: readonly Health[] = ['bad', 'warn', 'busy', 'good', 'away', 'hollow'];

function worst(stars: readonly Star[]): Health {
  return WORST.find((health) => stars.some((star) => star.health === health)) ?? 'good';
}

export function nodeBody(key: string): string {
  return `node:${key}`;
}

/** The body at a point, with some room for fingers. */
export function bodyAt({ bodies }: Layout, x: number, y: number): number | undefined {
  let found: number | undefined;
  let least = 8;
  bodies.forEach((body, index) => {
    const away = Math.hypot(body.x - x, body.y - y) - body.r;
    if (away < least) [found, least] = [index, away];
  });
  return found;
}

const DIRECTIONS: Readonly<Record<string, readonly [x: number, y: number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The nearest body in the direction of an arrow key; the first one without a beginning. Undefined for other keys. */
export function neighbour({ bodies }: Layout, from: number | undefined, key: string): number | undefined {
  const direction = DIRECTIONS[key];
  if (!direction) return undefined;
  const start = from === undefined ? undefined : bodies[from];
  if (!start) return bodies.length > 0 ? 0 : undefined;
  let found = from;
  let least = Number.POSITIVE_INFINITY;
  bodies.forEach((body, index) => {
    const along = (body.x - start.x) * direction[0] + (body.y - start.y) * direction[1];
    const across = Math.abs((body.x - start.x) * direction[1]) + Math.abs((body.y - start.y) * direction[0]);
    // Beside rather than ahead is not in this direction.
    if (index === from || along <= 0.5 || across > along * 2.5) return;
    const cost = along + 2 * across;
    if (cost < least) [found, least] = [index, cost];
  });
  return found;
}
