import { drawFlows, drawMotion, drawRates, type Moving } from './draw-motion.js';
import { LABEL_HEIGHT } from './labels.js';
import type { Body, Layout, System } from './layout.js';
import type { Paint } from './paint.js';
import type { Health } from './sky.js';

export interface Picture extends Moving {
  readonly layout: Layout;
  readonly paint: Paint;
  readonly ratio: number;
  readonly selected: number | undefined;
  readonly hovered: number | undefined;
  readonly title: (system: System) => string;
}

type Canvas = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** All that rests: one picture for all frames of a movement. */
export function drawStill(canvas: Canvas, picture: Picture): void {
  const { layout, paint, ratio } = picture;
  canvas.setTransform(ratio, 0, 0, ratio, 0, 0);
  canvas.clearRect(0, 0, layout.width, layout.height);
  canvas.lineWidth = 1;
  drawLinks(canvas, layout, paint);
  for (const system of layout.systems) drawOrbits(canvas, system, paint);
  drawBonds(canvas, layout, paint);
  drawFlows(canvas, picture);
  drawBodies(canvas, layout.bodies, paint);
  drawLabels(canvas, picture);
  drawRates(canvas, picture);
  drawMarks(canvas, picture);
}

/** A frame: the resting picture, and what moves above it. */
export function drawFrame(canvas: Canvas, still: OffscreenCanvas, picture: Picture): void {
  canvas.setTransform(1, 0, 0, 1, 0, 0);
  canvas.clearRect(0, 0, still.width, still.height);
  canvas.drawImage(still, 0, 0);
  canvas.setTransform(picture.ratio, 0, 0, picture.ratio, 0, 0);
  drawMotion(canvas, picture);
}

/** The links from this node to the others. */
function drawLinks(canvas: Canvas, { systems }: Layout, { line, dim }: Paint): void {
  const [own, ...others] = systems;
  for (const { x, y, rx, ry, node } of others) {
    const angle = Math.atan2(y - own!.y, x - own!.x);
    const edge = (system: { x: number; y: number; rx: number; ry: number }, at: number) => {
      const reach = 1 / Math.hypot(Math.cos(at) / (system.rx + 6), Math.sin(at) / (system.ry + 6));
      return [system.x + reach * Math.cos(at), system.y + reach * Math.sin(at)] as const;
    };
    canvas.strokeStyle = node.connected ? dim : line;
    canvas.setLineDash(node.connected ? [] : [2, 4]);
    canvas.beginPath();
    canvas.moveTo(...edge(own!, angle));
    canvas.lineTo(...edge({ x, y, rx, ry }, angle + Math.PI));
    canvas.stroke();
  }
  canvas.setLineDash([]);
}

function drawOrbits(canvas: Canvas, { x, y, orbits, node }: System, { line, dim, ground, font }: Paint): void {
  canvas.strokeStyle = line;
  canvas.setLineDash(node.connected ? [] : [2, 4]);
  canvas.beginPath();
  for (const { rx, ry } of orbits) {
    canvas.moveTo(x + rx, y);
    canvas.ellipse(x, y, rx, ry, 0, 0, 2 * Math.PI);
  }
  canvas.stroke();
  // A sandbox: over the solid line, in the colour of the ground, and then dashed.
  for (const [style, dash, width] of [
    [ground, [], 3],
    [dim, [4, 4], 1.2],
  ] as const) {
    canvas.strokeStyle = style;
    canvas.lineWidth = width;
    canvas.setLineDash([...dash]);
    canvas.beginPath();
    for (const { rx, ry, dashed } of orbits) {
      for (const [from, to] of dashed) {
        canvas.moveTo(x + rx * Math.cos(from), y + ry * Math.sin(from));
        canvas.ellipse(x, y, rx, ry, 0, from, to);
      }
    }
    canvas.stroke();
  }
  canvas.lineWidth = 1;
  canvas.setLineDash([]);
  canvas.font = font;
  canvas.textAlign = 'center';
  canvas.textBaseline = 'middle';
  for (const { label, tier } of orbits) {
    if (!label) continue;
    canvas.fillStyle = ground;
    canvas.fillRect(label.x - 10, label.y - 7, 20, 14);
    canvas.fillStyle = dim;
    canvas.fillText(`L${tier}`, label.x, label.y);
  }
}

function drawBonds(canvas: Canvas, { bonds, bodies, at }: Layout, { accent }: Paint): void {
  if (bonds.length === 0) return;
  canvas.strokeStyle = accent;
  canvas.globalAlpha = 0.7;
  canvas.beginPath();
  for (const { from, to } of bonds) {
    const [a, b] = [bodies[at.get(from)!]!, bodies[at.get(to)!]!];
    // A double line, to be told from a flow.
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const length = Math.hypot(dx, dy) || 1;
    for (const side of [-1.5, 1.5]) {
      canvas.moveTo(a.x - (dy / length) * side, a.y + (dx / length) * side);
      canvas.lineTo(b.x - (dy / length) * side, b.y + (dx / length) * side);
    }
  }
  canvas.stroke();
  canvas.globalAlpha = 1;
}

/** The part of the ring of each health: its shape, so that colour never stands alone. */
const RINGS: Readonly<Record<Health, { readonly tone: keyof Paint; readonly dash: readonly number[] } | undefined>> = {
  good: { tone: 'good', dash: [] },
  busy: { tone: 'busy', dash: [3, 3] },
  warn: { tone: 'warn', dash: [8, 3] },
  bad: { tone: 'bad', dash: [] },
  away: { tone: 'dim', dash: [1, 3] },
  hollow: undefined,
};

/** Bodies of one look are one path, so that hundreds take little time. */
function drawBodies(canvas: Canvas, bodies: readonly Body[], paint: Paint): void {
  const group = (key: (body: Body) => string) => {
    const groups = new Map<string, Body[]>();
    for (const body of bodies) {
      const name = key(body);
      const there = groups.get(name);
      if (there) there.push(body);
      else groups.set(name, [body]);
    }
    return groups;
  };
  for (const [name, members] of group(fillOf)) {
    circles(canvas, members, 0);
    canvas.fillStyle = paint[(name === 'hollow' ? 'ground' : name) as keyof Paint];
    canvas.fill();
    if (name !== 'hollow') continue;
    canvas.strokeStyle = paint.dim;
    canvas.stroke();
  }
  canvas.lineWidth = 1.5;
  for (const [health, members] of group((body) => body.health)) {
    const ring = RINGS[health as Health];
    if (!ring) continue;
    circles(canvas, members, 3);
    canvas.strokeStyle = paint[ring.tone];
    canvas.setLineDash([...ring.dash]);
    canvas.stroke();
    if (health === 'bad') crosses(canvas, members);
  }
  canvas.setLineDash([]);
  canvas.lineWidth = 1;
  canvas.fillStyle = paint.accent;
  // A reserved file is a small square at the body.
  for (const { star, x, y, r } of bodies)
    if (star && star.leases.length > 0) canvas.fillRect(x + r - 1, y - r - 4, 5, 5);
}

function fillOf({ health, isWorking, star }: Body): string {
  if (health === 'hollow') return 'hollow';
  if (isWorking) return 'busy';
  return star?.tier === 0 ? 'accent' : 'dim';
}

function circles(canvas: Canvas, bodies: readonly Body[], beyond: number): void {
  canvas.beginPath();
  for (const { x, y, r } of bodies) {
    // Small bodies have no room for a distance between themselves and their ring.
    const reach = r + (r < 4 ? beyond / 3 : beyond);
    canvas.moveTo(x + reach, y);
    canvas.arc(x, y, reach, 0, 2 * Math.PI);
  }
}

function crosses(canvas: Canvas, bodies: readonly Body[]): void {
  canvas.beginPath();
  for (const { x, y, r } of bodies) {
    const reach = r + 3;
    canvas.moveTo(x + reach - 3, y - reach - 3);
    canvas.lineTo(x + reach + 3, y - reach + 3);
    canvas.moveTo(x + reach + 3, y - reach - 3);
    canvas.lineTo(x + reach - 3, y - reach + 3);
  }
  canvas.stroke();
}

function drawLabels(canvas: Canvas, { layout, paint, title, within, rateWithin }: Picture): void {
  const { labels, bodies, systems } = layout;
  canvas.font = paint.font;
  canvas.textAlign = 'center';
  canvas.textBaseline = 'middle';
  // Orbits and flows pass behind the names.
  canvas.strokeStyle = paint.ground;
  canvas.lineWidth = 3;
  canvas.lineJoin = 'round';
  for (const { x, y, text } of labels) canvas.strokeText(text, x, y);
  canvas.lineWidth = 1;
  for (const { body, x, y, text } of labels) {
    const { health } = bodies[body]!;
    canvas.fillStyle = health === 'hollow' || health === 'away' ? paint.dim : paint.text;
    canvas.fillText(text, x, y);
  }
  // The number of agents in a node that is one body.
  for (const [index, { star, system, x, y, r, health }] of bodies.entries()) {
    if (star) continue;
    const rate = within.get(index);
    canvas.font = paint.font;
    const fits = (line: string) => canvas.measureText(line).width < 1.85 * r;
    const lines = (rate === undefined ? [] : rateWithin(rate)).find((one) => one.every(fits)) ?? [];
    const top = y - (lines.length * LABEL_HEIGHT) / 2;
    canvas.fillStyle = health === 'hollow' ? paint.dim : paint.ground;
    for (const [at, line] of lines.entries()) canvas.fillText(line, x, top + (at + 1) * LABEL_HEIGHT + 2);
    canvas.font = paint.titleFont;
    canvas.fillText(String(systems[system]!.count), x, top);
  }
  canvas.textAlign = 'left';
  for (const system of systems) {
    const { x, y, text } = system.title;
    canvas.font = paint.titleFont;
    const after = x + canvas.measureText(text).width + 8;
    canvas.font = paint.font;
    canvas.fillStyle = paint.ground;
    canvas.fillRect(x - 2, y - 8, after - x + canvas.measureText(title(system)).width + 4, 16);
    canvas.font = paint.titleFont;
    canvas.fillStyle = system.node.connected ? paint.text : paint.dim;
    canvas.fillText(text, x, y);
    canvas.font = paint.font;
    canvas.fillStyle = paint.dim;
    canvas.fillText(title(system), after, y);
  }
}

/** The selected body, and the name of one that is pointed at and has no label. */
function drawMarks(canvas: Canvas, { layout, paint, selected, hovered }: Picture): void {
  canvas.strokeStyle = paint.accent;
  canvas.lineWidth = 2;
  for (const index of new Set([selected, hovered])) {
    const body = index === undefined ? undefined : layout.bodies[index];
    if (!body) continue;
    canvas.setLineDash(index === selected ? [] : [3, 3]);
    canvas.beginPath();
    canvas.arc(body.x, body.y, body.r + 7, 0, 2 * Math.PI);
    canvas.stroke();
    if (layout.labels.some((label) => label.body === index)) continue;
    canvas.font = paint.font;
    canvas.textAlign = 'center';
    const half = canvas.measureText(body.text).width / 2 + 3;
    const x = Math.min(layout.width - half, Math.max(half, body.x));
    const y = body.y + body.r + 8 + LABEL_HEIGHT / 2;
    canvas.fillStyle = paint.ground;
    canvas.fillRect(x - half, y - LABEL_HEIGHT / 2, 2 * half, LABEL_HEIGHT);
    canvas.fillStyle = paint.text;
    canvas.fillText(body.text, x, y);
  }
  canvas.setLineDash([]);
  canvas.lineWidth = 1;
}
