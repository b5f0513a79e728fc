import type { Body, Layout } from './layout.js';
import type { Arc, Flow, Wave } from './motion.js';
import type { Paint } from './paint.js';

export interface Moving {
  readonly now: number;
  readonly arcs: readonly Arc[];
  readonly waves: readonly Wave[];
  /** Empty while messages are shown as arcs. */
  readonly flows: readonly Flow[];
  /** Messages a second within each node that is one body. */
  readonly within: ReadonlyMap<number, number>;
  readonly rate: (perSecond: number) => string;
  /** Lines for the rate within a node: the first that its disc has room for. */
  readonly rateWithin: (perSecond: number) => readonly (readonly string[])[];
}

interface Drawn extends Moving {
  readonly layout: Layout;
  readonly paint: Paint;
}

type Canvas = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** The part of the way that is lit. */
const TAIL = 0.35;
const STEPS = 10;
const NAMED_FLOWS = 6;

/** The point of a way that is bent to the left of its direction, so that a request and its reply take different ones. */
function point(a: Body, b: Body, share: number): readonly [x: number, y: number] {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const [cx, cy] = [(a.x + b.x) / 2 - dy * 0.18, (a.y + b.y) / 2 + dx * 0.18];
  const rest = 1 - share;
  return [
    rest * rest * a.x + 2 * rest * share * cx + share * share * b.x,
    rest * rest * a.y + 2 * rest * share * cy + share * share * b.y,
  ];
}

export function drawMotion(canvas: Canvas, { layout, paint, arcs, waves, now }: Drawn): void {
  canvas.lineCap = 'round';
  for (const { from, to, isRefused, start, ms } of arcs) {
    const [a, b] = [layout.bodies[from], layout.bodies[to]];
    if (!a || !b) continue;
    const share = Math.min(1, (now - start) / ms);
    const head = isRefused ? Math.min(0.5, share) : share;
    const tail = Math.max(0, head - TAIL);
    const colour = isRefused ? paint.bad : paint.accent;
    const light = canvas.createLinearGradient(...point(a, b, tail), ...point(a, b, head));
    light.addColorStop(0, /^#[\da-f]{6}$/i.test(colour) ? `${colour}00` : 'transparent');
    light.addColorStop(1, colour);
    canvas.strokeStyle = light;
    canvas.globalAlpha = share < 1 ? 1 : 0.6;
    canvas.lineWidth = 2.5;
    canvas.beginPath();
    canvas.moveTo(...point(a, b, tail));
    for (let step = 1; step <= STEPS; step++) canvas.lineTo(...point(a, b, tail + ((head - tail) * step) / STEPS));
    canvas.stroke();
    canvas.globalAlpha = 1;
    canvas.strokeStyle = colour;
    if (isRefused && share >= 0.5) cross(canvas, ...point(a, b, 0.5));
  }
  for (const { body, isRefused, start, ms } of waves) {
    const centre = layout.bodies[body];
    const system = centre && layout.systems[centre.system];
    if (!centre || !system) continue;
    const share = Math.min(1, (now - start) / ms);
    canvas.strokeStyle = isRefused ? paint.bad : paint.accent;
    canvas.globalAlpha = 1 - share * 0.8;
    canvas.lineWidth = 1.5;
    canvas.beginPath();
    canvas.ellipse(centre.x, centre.y, centre.r + share * system.rx, centre.r + share * system.ry, 0, 0, 2 * Math.PI);
    canvas.stroke();
  }
  canvas.globalAlpha = 1;
  canvas.lineWidth = 1;
  canvas.lineCap = 'butt';
}

function cross(canvas: Canvas, x: number, y: number): void {
  canvas.lineWidth = 2;
  canvas.beginPath();
  canvas.moveTo(x - 4, y - 4);
  canvas.lineTo(x + 4, y + 4);
  canvas.moveTo(x + 4, y - 4);
  canvas.lineTo(x - 4, y + 4);
  canvas.stroke();
}

/** Many messages: a line for each pair, as wide as their rate. */
export function drawFlows(canvas: Canvas, { layout, paint, flows }: Drawn): void {
  if (flows.length === 0) return;
  canvas.lineCap = 'round';
  for (const flow of flows) {
    const [a, b] = [layout.bodies[flow.from]!, layout.bodies[flow.to]!];
    canvas.strokeStyle = flow.refused > flow.rate / 2 ? paint.bad : paint.accent;
    canvas.globalAlpha = 0.55;
    canvas.lineWidth = Math.min(9, 1 + Math.log2(1 + flow.rate));
    const [cx, cy] = [(a.x + b.x) / 2 - (b.y - a.y) * 0.18, (a.y + b.y) / 2 + (b.x - a.x) * 0.18];
    canvas.beginPath();
    canvas.moveTo(a.x, a.y);
    canvas.quadraticCurveTo(cx, cy, b.x, b.y);
    canvas.stroke();
  }
  canvas.globalAlpha = 1;
  canvas.lineWidth = 1;
  canvas.lineCap = 'butt';
}

/** The numbers of the widest flows, each where it covers no name and no body. */
export function drawRates(canvas: Canvas, { layout, paint, flows, rate }: Drawn): void {
  canvas.font = paint.font;
  canvas.textAlign = 'center';
  canvas.textBaseline = 'middle';
  const taken: Place[] = [];
  for (const flow of flows.slice(0, NAMED_FLOWS)) {
    const text = rate(flow.rate);
    const half = canvas.measureText(text).width / 2 + 3;
    const place = PLACES.map((share) => point(layout.bodies[flow.from]!, layout.bodies[flow.to]!, share))
      .map(([x, y]) => ({ x, y, half }))
      .find((one) => isFree(one, layout) && !taken.some((other) => meets(one, other)));
    if (!place) continue;
    taken.push(place);
    canvas.fillStyle = paint.ground;
    canvas.fillRect(place.x - half, place.y - 7, 2 * half, 14);
    canvas.fillStyle = paint.text;
    canvas.fillText(text, place.x, place.y);
  }
}

interface Place {
  readonly x: number;
  readonly y: number;
  readonly half: number;
}

/** Parts of the way, the best first. */
const PLACES = [0.5, 0.4, 0.6, 0.3, 0.7] as const;

function meets(a: Place, b: Place): boolean {
  return Math.abs(a.x - b.x) < a.half + b.half && Math.abs(a.y - b.y) < 14;
}

function isFree(place: Place, { labels, bodies }: Layout): boolean {
  return (
    !labels.some(({ x, y, width }) => meets(place, { x, y, half: width / 2 })) &&
    !bodies.some(({ x, y, r }) => Math.abs(x - place.x) < place.half + r + 3 && Math.abs(y - place.y) < 10 + r)
  );
}
