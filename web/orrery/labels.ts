import type { Body, Label, LayoutInit, System } from './layout.js';

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export const LABEL_HEIGHT = 13;
const GAP = 4;
const CELL = 64;

/** Boxes by the cells of a grid, so that only near ones are compared. */
class Boxes {
  readonly #cells = new Map<string, { readonly box: Box; readonly owner: number }[]>();

  add(box: Box, owner: number): void {
    for (const cell of cellsOf(box)) {
      const there = this.#cells.get(cell);
      if (there) there.push({ box, owner });
      else this.#cells.set(cell, [{ box, owner }]);
    }
  }

  /** Is there any box but the owner's own? */
  meets(box: Box, owner: number): boolean {
    return cellsOf(box).some((cell) =>
      this.#cells.get(cell)?.some((other) => other.owner !== owner && overlaps(other.box, box)),
    );
  }
}

function* range(from: number, to: number): Generator<number> {
  for (let at = Math.floor(from / CELL); at <= Math.floor(to / CELL); at++) yield at;
}

function cellsOf({ left, top, right, bottom }: Box): string[] {
  return [...range(left, right)].flatMap((x) => [...range(top, bottom)].map((y) => `${x} ${y}`));
}

function overlaps(a: Box, b: Box): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

/** A label for each body that has room for one: below it, above, or beside, without covering anything. */
export function placeLabels(
  bodies: readonly Body[],
  systems: readonly System[],
  { width, height, measure, title: beside }: Pick<LayoutInit, 'width' | 'height' | 'measure' | 'title'>,
): Label[] {
  const taken = new Boxes();
  bodies.forEach(({ x, y, r }, index) => {
    const reach = r + 4;
    taken.add({ left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }, index);
  });
  for (const { title, orbits, count, node } of systems) {
    const titleWidth = measure(title.text) * 1.3 + measure(beside(count, node.connected)) + 12;
    taken.add({ left: title.x, top: title.y - 12, right: title.x + titleWidth, bottom: title.y + 4 }, -1);
    for (const { label } of orbits) {
      if (label) taken.add({ left: label.x - 10, top: label.y - 8, right: label.x + 10, bottom: label.y + 8 }, -1);
    }
  }
  const labels: Label[] = [];
  // Those of the inner tiers and of busy agents have the first choice.
  const order = bodies.map((_, index) => index).sort((a, b) => rank(bodies[a]!) - rank(bodies[b]!) || a - b);
  for (const body of order) {
    const { x, y, r, text } = bodies[body]!;
    const size = measure(text);
    const fits = ({ left, top, right, bottom }: Box) =>
      left >= 2 && top >= 2 && right <= width - 2 && bottom <= height - 2;
    const place = candidates(x, y, r + 5, size).find((box) => fits(box) && !taken.meets(box, body));
    if (!place) continue;
    taken.add(place, body);
    labels.push({ body, x: (place.left + place.right) / 2, y: (place.top + place.bottom) / 2, width: size, text });
  }
  return labels;
}

function rank({ star, isWorking }: Body): number {
  return (star?.tier ?? -1) - (isWorking ? 0.5 : 0);
}

function candidates(x: number, y: number, reach: number, size: number): Box[] {
  const box = (cx: number, cy: number): Box => ({
    left: cx - size / 2,
    right: cx + size / 2,
    top: cy - LABEL_HEIGHT / 2,
    bottom: cy + LABEL_HEIGHT / 2,
  });
  const up = reach + LABEL_HEIGHT / 2;
  const aside = reach + GAP + size / 2;
  return [
    box(x, y + up),
    box(x, y - up),
    box(x + aside, y),
    box(x - aside, y),
    box(x + aside * 0.7, y + up),
    box(x - aside * 0.7, y + up),
    box(x + aside * 0.7, y - up),
    box(x - aside * 0.7, y - up),
    box(x, y + up + LABEL_HEIGHT),
    box(x, y - up - LABEL_HEIGHT),
  ];
}
