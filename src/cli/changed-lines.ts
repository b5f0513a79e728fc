/** Lines around a change that are shown with it. */
const CONTEXT = 2;

/** Where two texts differ, as a person reads it: lines that go with `-`, lines that come with `+`. */
export function changedLines(before: string, after: string): string[] {
  const from = before === '' ? [] : before.split('\n');
  const to = after === '' ? [] : after.split('\n');
  let same = 0;
  while (same < from.length && same < to.length && from[same] === to[same]) same++;
  let tail = 0;
  while (tail < from.length - same && tail < to.length - same && from.at(-1 - tail) === to.at(-1 - tail)) tail++;
  return [
    ...from.slice(Math.max(0, same - CONTEXT), same).map((line) => `  ${line}`),
    ...from.slice(same, from.length - tail).map((line) => `- ${line}`),
    ...to.slice(same, to.length - tail).map((line) => `+ ${line}`),
    ...to.slice(to.length - tail, to.length - tail + CONTEXT).map((line) => `  ${line}`),
  ];
}
