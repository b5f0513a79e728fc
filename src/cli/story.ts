import type { Story, StoryEvent, StoryNode } from '../http/dashboard/facts.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { flag, verb } from './command.js';
import { oneLine, shortAddress, timeText } from './output.js';
import { durationText } from './run-text.js';

const show = verb({
  summary: 'show what became of any id: where it is, what it waits for, and what proves it',
  args: ['ID'],
  argHelp: [
    [
      'ID',
      'of a message, thread, task, proposal, swarm, sub-task (SWARM/SUB-TASK), run, run task (RUN/TASK), lease, tool call or approval; also its beginning, or KIND:ID',
    ],
  ],
  options: {
    here: flag('do not ask your other devices'),
    payload: flag('also print the payload'),
  },
  examples: ['01JD…', '01JD…/build --json', 'thread:01JD…'],
  async run({ call, words: [id], values, output }) {
    const story = await call('story', { id, ...(values.here && { local: true }) });
    output.value(story, () => storyText(story, systemRuntime().now(), values.payload === true).join('\n'));
  },
});

function storyText(story: Story, now: number, withPayload: boolean): string[] {
  const { kind, id, title, state, waits, events, left, payload, related, nodes } = story;
  const [first, ...rest] = events;
  const lines = events.map((event, at) => eventLine(event, events[at - 1]));
  return [
    `${kind} ${id}: ${oneLine(title)}`,
    `state   ${state}${spanText(story, now)}`,
    ...(waits
      ? [`waits   for ${shortAddress(waits.for)}: ${oneLine(waits.reason)}${deadlineText(waits.until, now)}`]
      : []),
    ...nodes.filter((node) => node.state === 'missing').map(missingLine),
    '',
    ...(left > 0 && first
      ? [lines[0]!, `  … ${left} earlier events are left out`, ...lines.slice(lines.length - rest.length)]
      : lines),
    ...(events.length === 0 ? ['no events are recorded'] : []),
    ...(related.length === 0
      ? []
      : ['', ...related.map((one) => `see     ecliptic story ${one.kind.replace(' ', '-')}:${one.id}`)]),
    ...(withPayload && payload
      ? ['', payload.text, ...(payload.cut ? [`… cut: ${payload.chars} characters`] : [])]
      : []),
  ];
}

function eventLine(event: StoryEvent, before: StoryEvent | undefined): string {
  const { at, from, to, word, text, code, rule, proof, attempt } = event;
  const time = at === null ? '-'.padEnd(12) : timeText(at, 'time');
  const since = at === null || before?.at == null ? '' : `+${durationText(at - before.at)}`;
  const ends = to === null ? shortAddress(from ?? '-') : `${shortAddress(from ?? '-')} → ${shortAddress(to)}`;
  const more = [
    ...(attempt === undefined ? [] : [`attempt ${attempt}`]),
    ...(code === null ? [] : [code]),
    ...(text === null || text === rule ? [] : [oneLine(text)]),
    ...(rule === null ? [] : [`rule: ${oneLine(rule)}`]),
    ...(proof === null ? [] : [`[${proof.text}]`]),
  ];
  return `${time}  ${since.padEnd(9)}  ${ends.padEnd(24)}  ${word.padEnd(12)}  ${more.join('  ')}`.trimEnd();
}

function missingLine({ name, node, since, reason }: StoryNode): string {
  const when = since === null ? '' : `, last heard ${timeText(since, 'seconds')}`;
  return `missing events of ${name || node.slice(0, 12)}: ${oneLine(reason ?? 'it did not answer')}${when}`;
}

function spanText({ startedAt: start, endedAt: end, over }: Story, now: number): string {
  if (start === null) return '';
  const began = `, began ${timeText(start, 'seconds')}`;
  if (over && end === null) return `${began}; when it ended is not recorded`;
  return end === null ? `${began} (${longText(now - start)} ago)` : `${began}, took ${durationText(end - start)}`;
}

function deadlineText(until: number | null, now: number): string {
  if (until === null) return '';
  const left = until > now ? `${longText(until - now)} left` : 'passed';
  return `, until ${timeText(until, 'seconds')} (${left})`;
}

const HOUR_MS = 3_600_000;

/** As `durationText`, but in hours and days where it is long. */
function longText(ms: number): string {
  if (ms < 2 * HOUR_MS) return durationText(ms);
  const hours = Math.floor(ms / HOUR_MS);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const verbs = { show };
