import type { Body, Layout } from './layout.js';
import type { Arc, Flow, Wave } from './motion.js';
import type { Paint } from './paint.js';

export interface Moving {
  readonly now: number;
  readonly arcs: readonly Arc[];
  readonly waves: readonly Wave[];
  /** Empty while messages are shown as arcs. */
  readonly flows: readonly Flow[];
  readonly rate: (perSecond: number) => string;
}

interface Drawn extends Moving {
  readonly layout: Layout;
  readonly paint: Paint;
}

type Canvas = CanvasRenderingContext2D;

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
    canvas.strokeStyle = isRefused ? paint.bad : paint.accent;
    for (let step = 0; step < STEPS; step++) {
      canvas.globalAlpha = ((step + 1) / STEPS) * (share < 1 ? 1 : 0.6);
      canvas.lineWidth = 1 + (2 * step) / STEPS;
      canvas.beginPath();
      canvas.moveTo(...point(a, b, tail + ((head - tail) * step) / STEPS));
      canvas.lineTo(...point(a, b, tail + ((head - tail) * (step + 1)) / STEPS));
      canvas.stroke();
    }
    canvas.globalAlpha = 1;
    if (isRefused && share >= 0.5) cross(canvas, ...point(a, b, 0.5));
  }
  for (const { body, start, ms } of waves) {
    const centre = layout.bodies[body];
    const system = centre && layout.systems[centre.system];
    if (!centre || !system) continue;
    const share = Math.min(1, (now - start) / ms);
    canvas.strokeStyle = paint.accent;
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

/** Many messages: a line for each pair, as wide as their rate, with the numbers of the widest. */
export function drawFlows(canvas: Canvas, { layout, paint, flows, rate }: Drawn): void {
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
  canvas.font = paint.font;
  canvas.textAlign = 'center';
  canvas.textBaseline = 'middle';
  for (const flow of flows.slice(0, NAMED_FLOWS)) {
    const [x, y] = point(layout.bodies[flow.from]!, layout.bodies[flow.to]!, 0.5);
    const text = rate(flow.rate);
    const half = canvas.measureText(text).width / 2 + 3;
    canvas.fillStyle = paint.ground;
    canvas.fillRect(x - half, y - 7, 2 * half, 14);
    canvas.fillStyle = paint.text;
    canvas.fillText(text, x, y);
  }
}
