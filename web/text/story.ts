import type { StoryKind } from '../../src/http/dashboard/facts.js';

/** Texts of the story view. */
export const STORY_TEXT = {
  label: 'An id: of a message, thread, task, proposal, swarm, run, lease, tool call or approval',
  show: 'Show',
  none: 'Paste any id to see what became of it: where it is now, what it waits for, and what proves it. Ids of messages are in the journal:',
  noneCommand: 'ecliptic log',
  loading: 'Reading the story.',
  inTerminal: (id: string) => `ecliptic story ${id}`,
  events: 'Events, oldest first',
  time: 'Time',
  took: (span: string) => `took ${span}`,
  noEnd: 'when it ended is not recorded',
  began: 'began',
  ended: 'ended',
  noTime: 'not recorded',
  attempt: (count: number) => `attempt ${count}`,
  rule: (rule: string) => `rule: ${rule}`,
  proof: 'proof',
  waits: (who: string, reason: string) => `waits for ${who}: ${reason}`,
  left: (span: string) => `${span} left`,
  passed: 'its time is over',
  leftOut: (count: number) => `${count} earlier events are not shown`,
  missing: (name: string, reason: string) => `Events of ${name} are missing: ${reason}`,
  missingSince: 'last heard',
  noEvents: 'No events are recorded.',
  payload: 'Payload',
  cut: (shown: number, all: number) => `cut: ${shown} of ${all} characters are shown`,
  raw: 'Raw JSON',
  copy: 'Copy as JSON',
  copied: 'Copied the story as JSON.',
  replay: 'Ask today’s rules',
  same: (count: number) => `Today’s rules decide the same (${count} ${count === 1 ? 'decision' : 'decisions'} asked).`,
  differs: (from: string, to: string, before: string, now: string) => `${from} → ${to}: ${before} then, ${now} today`,
  again: 'Send again',
  againSure: (as: string, to: string) => `Send the same payload again, as ${as} to ${to}?`,
  send: 'Send',
  cancel: 'Cancel',
  sent: 'Sent again.',
  refused: (code: string) => `It was refused: ${code}`,
  related: 'Related',
} as const;

/** The mark of each word, so that colour never stands alone. */
const MARKS: readonly (readonly [words: string, mark: string, tone: string])[] = [
  [
    'delivered relayed arrived surfaced read done replied completed finished approved allowed accepted joined',
    '●',
    'good',
  ],
  ['working running validating active called recruiting completing resumed reopened opened begun', '◐', 'busy'],
  ['refused failed denied rejected declined undeliverable lapsed blocked canceled expired', '✕', 'bad'],
  ['asked escalated escalating held auth required input required needs revision', '▲', 'warn'],
];

export function markOf(word: string): readonly [mark: string, tone: string] {
  const found = MARKS.find(([words]) => ` ${words} `.includes(` ${word} `));
  return found ? [found[1], found[2]] : ['○', 'dim'];
}

/** How long after the event before. */
export function sinceText(ms: number): string {
  if (ms < 1_000) return `+${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `+${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? `+${minutes} min` : `+${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** An id with its kind, as a message and its thread may have the same. */
export function referenceOf(kind: StoryKind, id: string): string {
  return `${kind.replace(' ', '-')}:${id}`;
}
