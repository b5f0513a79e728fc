import type { MessageLine } from '../../src/http/dashboard/facts.js';
import { drawFrame, drawStill } from './draw.js';
import { type Body, bodyAt, type Layout, layOut, neighbour, type System } from './layout.js';
import { Motion } from './motion.js';
import { type Paint, paintOf } from './paint.js';
import type { Sky } from './sky.js';

/** The texts that are drawn. */
export interface SceneText {
  readonly counts: (working: number, unstaffed: number) => string;
  readonly title: (agents: number, connected: boolean) => string;
  readonly rate: (perSecond: number) => string;
  readonly rateWithin: (perSecond: number) => readonly (readonly string[])[];
}

const FLOW_MS = 1_000;
const MEDIA = ['(prefers-color-scheme: dark)', '(prefers-contrast: more)', '(prefers-reduced-motion: reduce)'] as const;
const NO_SKY: Sky = { nodes: [], stars: [], bonds: [] };

/** The canvas: draws when something changed, and frame by frame only while something moves. */
export class Scene {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #text: SceneText;
  readonly #still = new OffscreenCanvas(1, 1);
  readonly #stillContext = this.#still.getContext('2d')!;
  /** The resting picture is not that of the present facts. */
  #isOld = true;
  readonly #ended = new AbortController();
  readonly #motion = new Motion();
  readonly #opened = new Set<string>();
  readonly #observer: ResizeObserver;
  #sky = NO_SKY;
  #layout: Layout;
  #paint: Paint;
  #prefersStill = matchMedia(MEDIA[2]).matches;
  #size = { width: 0, height: 0 };
  /** The body that is selected, by its id. */
  #selected: string | undefined;
  #hovered: number | undefined;
  #total: number | undefined;
  #frame: number | undefined;
  #flowTimer: ReturnType<typeof setTimeout> | undefined;
  /** In the last picture. */
  #rates = 0;
  #frames = 0;
  #spentMs = 0;

  constructor(canvas: HTMLCanvasElement, text: SceneText) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d')!;
    this.#text = text;
    this.#paint = paintOf(canvas);
    this.#layout = this.#layOut();
    this.#observer = new ResizeObserver(() => this.#resize());
    this.#observer.observe(canvas);
    for (const media of MEDIA) {
      matchMedia(media).addEventListener('change', () => this.#restyle(), { signal: this.#ended.signal });
    }
  }

  end(): void {
    this.#ended.abort();
    this.#observer.disconnect();
    clearTimeout(this.#flowTimer);
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
  }

  show(sky: Sky): void {
    this.#sky = sky;
    this.#relayout();
  }

  /** Takes the latest messages, newest first; `total` is the node's count for the last second, where it sends a sample. */
  take(lines: readonly MessageLine[], total: number | undefined): void {
    this.#total = total;
    if (this.#motion.take(lines, this.#layout, performance.now(), this.#prefersStill)) this.#moveSoon();
  }

  body(index: number | undefined): Body | undefined {
    return index === undefined ? undefined : this.#layout.bodies[index];
  }

  get selected(): number | undefined {
    return this.#selected === undefined ? undefined : this.#layout.at.get(this.#selected);
  }

  hover(x: number, y: number): Body | undefined {
    const found = bodyAt(this.#layout, x, y);
    if (found !== this.#hovered) {
      this.#hovered = found;
      this.#drawSoon();
    }
    return this.body(found);
  }

  leave(): void {
    if (this.#hovered === undefined) return;
    this.#hovered = undefined;
    this.#drawSoon();
  }

  /** Selects by an arrow key. Undefined for other keys. */
  move(key: string): Body | undefined {
    const next = neighbour(this.#layout, this.selected, key);
    if (next === undefined) return undefined;
    this.#selected = this.#layout.bodies[next]!.id;
    this.#drawSoon();
    return this.#layout.bodies[next];
  }

  deselect(): void {
    this.#selected = undefined;
    this.#drawSoon();
  }

  /** Shows the agents of a node that is one body. */
  open(node: string): void {
    this.#opened.add(node);
    this.#selected = undefined;
    this.#relayout();
  }

  /** Makes nodes with many agents one body again. */
  collapse(): void {
    this.#opened.clear();
    this.#selected = undefined;
    this.#relayout();
  }

  #layOut(): Layout {
    this.#context.font = this.#paint.font;
    const measure = (text: string) => this.#context.measureText(text).width;
    return layOut(this.#sky, { ...this.#size, opened: this.#opened, measure, ...this.#text });
  }

  #relayout(): void {
    const before = this.#layout.bodies;
    this.#layout = this.#layOut();
    const { bodies } = this.#layout;
    const isSame = before.length === bodies.length && before.every(({ id }, index) => id === bodies[index]!.id);
    // Arcs know their ends by number.
    if (!isSame) {
      this.#motion.relayout();
      this.#hovered = undefined;
    }
    this.#drawSoon();
  }

  #resize(): void {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (width === this.#size.width && height === this.#size.height) return;
    this.#size = { width, height };
    this.#motion.relayout();
    this.#layout = this.#layOut();
    this.#isOld = true;
    // Before the browser paints, so that the picture is never stretched.
    this.#draw(performance.now());
  }

  #restyle(): void {
    this.#paint = paintOf(this.#canvas);
    this.#prefersStill = matchMedia(MEDIA[2]).matches;
    if (this.#prefersStill) this.#motion.relayout();
    this.#relayout();
  }

  #drawSoon(): void {
    this.#isOld = true;
    this.#moveSoon();
  }

  #moveSoon(): void {
    this.#frame ??= requestAnimationFrame((now) => {
      this.#frame = undefined;
      this.#draw(now);
      if (this.#motion.advance(now)) this.#moveSoon();
    });
  }

  #draw(now: number): void {
    const { width, height } = this.#size;
    if (width === 0 || height === 0) return;
    const ratio = devicePixelRatio;
    const [pixelWidth, pixelHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
    for (const canvas of [this.#canvas, this.#still]) {
      if (canvas.width === pixelWidth && canvas.height === pixelHeight) continue;
      canvas.width = pixelWidth;
      canvas.height = pixelHeight;
      this.#isOld = true;
    }
    const before = performance.now();
    const motion = this.#motion;
    const isFlow = motion.isFlow(this.#total, before, this.#prefersStill);
    const flows = isFlow ? motion.flows(this.#layout, this.#total, before) : [];
    const within = isFlow ? motion.within(this.#layout, this.#total, before) : new Map<number, number>();
    const rates = flows.length + within.size;
    const { arcs, waves } = motion;
    const { rate, rateWithin, title } = this.#text;
    const picture = {
      ...{ layout: this.#layout, paint: this.#paint, ratio, now, arcs, waves, flows, within },
      ...{ rate, rateWithin },
      ...{ selected: this.selected, hovered: this.#hovered },
      title: ({ count, node }: System) => title(count, node.connected),
    };
    // Flows rest, but change with each second.
    if (this.#isOld || rates > 0 || this.#rates > 0) drawStill(this.#stillContext, picture);
    this.#isOld = false;
    this.#rates = rates;
    drawFrame(this.#context, this.#still, picture);
    this.#report(performance.now() - before, flows.length);
    // A flow ends when its messages end, and no event tells of that.
    clearTimeout(this.#flowTimer);
    if (rates > 0) this.#flowTimer = setTimeout(() => this.#drawSoon(), FLOW_MS);
  }

  /** Facts about the picture for tests and for people who look for the cause of a slow page. */
  #report(ms: number, flows: number): void {
    this.#frames++;
    this.#spentMs += ms;
    const { arcs, refusals, waves } = this.#motion.counts;
    const { bodies, systems, bonds, labels } = this.#layout;
    const facts = {
      ...{ arcs, refusals, waves, flows, bodies: bodies.length, systems: systems.length, bonds: bonds.length },
      ...{ labels: labels.length, frames: this.#frames, spentMs: this.#spentMs.toFixed(2) },
      motion: this.#prefersStill ? 'still' : 'moving',
    };
    for (const [name, value] of Object.entries(facts)) this.#canvas.dataset[name] = String(value);
  }
}
