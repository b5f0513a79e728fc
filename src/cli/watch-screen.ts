import type { Overview } from '../coding-agents/overview.js';
import type { Waiting, WaitingItem } from '../http/dashboard/facts.js';
import type { AgentRow } from '../node/control/rows.js';
import { shortAddress } from './output.js';

/** Everything that `ecliptic watch` shows. */
export interface WatchView {
  readonly waiting: readonly WaitingItem[];
  /** Devices of the owner that do not answer: their items are not shown, or are old. */
  readonly missing: Waiting['missing'];
  readonly agents: readonly AgentRow[];
  readonly coding: Overview;
  /** Lines of the latest refusals and messages, oldest first. */
  readonly refused: readonly string[];
  readonly messages: readonly string[];
}

/** States in which an agent does what it should. */
const WELL: ReadonlySet<string> = new Set(['ready', 'tools', 'starting', 'unstaffed']);
const MOST_WAITING = 8;
const MOST_UNWELL = 5;
const MOST_REFUSED = 3;
const LEAST_MESSAGES = 3;

/** The screen in at most so many rows: what waits comes first, and messages get the room that is left. */
export function screenRows(
  view: WatchView,
  { now, height }: { readonly now: number; readonly height: number },
): string[] {
  const { waiting, coding, refused, messages } = view;
  const head = [
    ...waitingRows(waiting, coding, now),
    ...view.missing.map(({ name }) => `  ◌ ${name} does not answer; its items may be missing`),
    '',
    ...agentRows(view.agents),
    ...codingRows(coding),
    ...(refused.length === 0 ? [] : ['', 'refused:', ...refused.slice(-MOST_REFUSED).map((line) => `  ${line}`)]),
    '',
    messages.length === 0 ? 'messages: none yet' : 'messages:',
  ];
  const room = Math.max(LEAST_MESSAGES, height - head.length);
  return [...head, ...messages.slice(-room).map((line) => `  ${line}`)].slice(0, Math.max(height, 1));
}

function waitingRows(items: readonly WaitingItem[], { forYou }: Overview, now: number): string[] {
  if (items.length === 0) return ['for you: nothing'];
  const needs = new Map(forYou.map(({ id, needs: what }) => [`mail:${id}`, what]));
  const rows = items.slice(0, MOST_WAITING).flatMap((item) => {
    const age = item.since === null ? '' : `${ageText(now - item.since)}  `;
    return [`  ▲ ${age}${aboutItem(item, needs.get(item.id))}`, `      ${answerLine(item)}`];
  });
  const more = items.length > MOST_WAITING ? [`  and ${items.length - MOST_WAITING} more`] : [];
  return [`for you: ${items.length}; see: ecliptic waiting`, ...rows, ...more];
}

/** `alice (needs reply): Which one?` */
export function aboutItem({ from, title, node }: WaitingItem, needs?: string): string {
  const where = node === null ? '' : ` on ${node.name}`;
  return `${shortAddress(from)}${where}${needs === undefined || needs === 'none' ? '' : ` (needs ${needs})`}: ${title}`;
}

/** The command that answers an item, with each answer that it takes. */
export function answerLine({ id, actions, answer }: WaitingItem): string {
  if (answer) return `${answer.action} was sent; not confirmed yet`;
  if (actions.length === 0) return 'nothing to answer yet';
  const words = actions.map((action) => (action === 'reply' ? 'reply TEXT' : action));
  return `ecliptic waiting answer ${id} ${words.join(' | ')}`;
}

function agentRows(agents: readonly AgentRow[]): string[] {
  const counts = new Map<string, number>();
  for (const { state } of agents) counts.set(state, (counts.get(state) ?? 0) + 1);
  const states = [...counts].map(([state, count]) => `${count} ${state}`).join(', ');
  const unwell = agents.filter(({ state }) => !WELL.has(state)).slice(0, MOST_UNWELL);
  return [`agents: ${states || 'none'}`, ...unwell.map((row) => `  ${agentLine(row)}`)];
}

/** `mars is degraded: its provider …` */
export function agentLine({ id, node, state, reason }: AgentRow): string {
  const address = node === null ? id : shortAddress(`${id}@${node}`);
  return `${address} is ${state}${reason === null ? '' : `: ${reason}`}`;
}

function codingRows({ agents, tasks, leases, held }: Overview): string[] {
  const own = agents.filter(({ state }) => state !== 'remote');
  if (own.length + tasks.length + leases.length + held.length === 0) return [];
  return [
    `coding agents: ${own.length === 0 ? 'none' : ''}`,
    ...own.map(({ name, state, unread, open, summary }) => {
      return `  ${name} is ${state}, ${unread} unread, ${open} open${summary === '' ? '' : `: ${summary}`}`;
    }),
    ...(tasks.length === 0 ? [] : ['tasks:']),
    ...tasks.map(({ id, from, to, state, title }) => `  ${id}  ${from} to ${to}  ${state}  ${title}`),
    ...(leases.length === 0 ? [] : ['leases:']),
    ...leases.map(({ name, glob, repositoryName, label }) => `  ${name}  ${glob}  in ${repositoryName}  ${label}`),
    ...(held.length === 0 ? [] : [`held: ${held.length}; see: ecliptic held`]),
  ];
}

const UNITS: readonly (readonly [ms: number, unit: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
];

function ageText(ms: number): string {
  const [size, unit] = UNITS.find(([least]) => ms >= least) ?? [1_000, 's'];
  return `${Math.max(0, Math.floor(ms / size))}${unit}`;
}
