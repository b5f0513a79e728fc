import type { WaitingAction, WaitingItem } from '../src/http/dashboard/facts.js';

/** Every text of the page. */
export const TEXT = {
  product: 'Ecliptic',
  documents: 'Documentation',
  places: {
    overview: 'Overview',
    needs: 'Needs you',
    agents: 'Agents',
    messages: 'Messages',
    mail: 'Mail',
    tasks: 'Tasks',
    runs: 'Run of a plan',
    swarms: 'Swarms',
    documents: 'Documents',
    memory: 'Knowledge',
    radar: 'Changed files',
    providers: 'Providers',
    tools: 'Tools',
    send: 'Send',
    mesh: 'Mesh',
    metrics: 'Metrics',
    policy: 'Policy',
    story: 'Story',
  },
  placesLabel: 'Places',
  skip: 'Skip to the view',
  live: 'live',
  connecting: 'connecting',
  stale: 'stale',
  staleSince: (age: string) => `not updated for ${age}; reconnecting`,
  staleAtAll: 'not connected; reconnecting',
  stalePart: (reason: string) => `not up to date: ${reason}`,
  sampled: (shown: number, total: number) => `sampled: ${shown} of ${total} messages shown in the last second`,
  noAnswer: {
    read: 'The node does not answer.',
    sent: 'The node does not answer; nothing was sent.',
    unsure: 'The node stopped answering; it may have taken this or not. Look before you send it again.',
    unread: 'Not read yet: the node does not answer.',
  },
  reconnect: 'The node does not answer. The data below is the last that arrived.',
  closed: {
    title: 'This page is not open',
    used: 'The link was used before, or it has expired. Each link opens the page once, within ten minutes.',
    ended: 'You have no session here: none was opened, it was revoked, or it has expired.',
    how: 'To get a link, run this on the machine of the node:',
    command: 'ecliptic open',
  },
  copied: (id: string) => `Copied ${id}.`,
  copy: (id: string) => `Copy ${id}`,
  ago: (age: string) => `${age} ago`,
  ahead: (left: string) => `in ${left}`,
  noPlace: 'There is no such place.',
  search: { label: 'Search', hint: 'any id, agent or text   /' },
  help: {
    title: 'Keys',
    close: 'Close',
    rows: [
      ['j, k', 'select the next or previous item that waits for you'],
      ['a, A', 'allow once, allow always (or approve, let in, try again, restart)'],
      ['d', 'deny (or turn away, close mail)'],
      ['r', 'reply'],
      ['t', 'in the overview: the table, or the orrery; there, arrows select and Enter opens'],
      ['/', 'search'],
      ['?', 'this list'],
    ],
    go: (place: string) => `go to ${place}`,
  },
  log: 'Live messages',
  keys: 'Keys: j and k select, a allows once, A always, d denies, r replies',
  needs: {
    label: 'What waits for you, oldest first',
    none: 'Nothing waits for you.',
    noneKnown: (names: readonly string[]) =>
      `Nothing that is known here waits for you; items of ${names.join(', ')} are not known while ${names.length === 1 ? 'it is' : 'they are'} away.`,
    noneHow:
      'Approval requests, mail to you, held mail, changed tools, escalated tasks and failing workers appear here. The same list in a terminal:',
    noneCommand: 'ecliptic waiting',
    loading: 'Reading what waits for you.',
    noAction: 'Nothing can be done about it at present; it can be retried when its run has ended.',
    replyLabel: 'Your reply',
    send: 'Send',
    sendKey: 'Ctrl+Enter sends',
    notSent: 'Your text was not sent.',
    cancel: 'Cancel',
    denied: (left: string) => `denied in ${left} without an answer`,
    expires: (left: string) => `expires in ${left}`,
    diff: 'Difference',
    on: (name: string) => `on ${name}`,
    sent: (action: WaitingAction, by: string, age: string) =>
      `${ACTIONS[action]}: sent by ${by} ${age} ago, not confirmed yet; it is repeated until it is`,
    refused: (action: WaitingAction, reason: string) => `${ACTIONS[action]}: refused, ${reason}`,
    given: (action: WaitingAction, by: string | null, age: string) =>
      by === null ? `denied ${age} ago, because no answer came in time` : `answered on ${by}, ${action}, ${age} ago`,
    over: 'no longer waits',
    overHow: 'no longer waits: answered elsewhere, withdrawn or expired',
    unknown: (name: string) => `not known while ${name} is away`,
    missing: (name: string, reason: string, age: string | undefined) =>
      `Items of ${name} are missing: ${reason}${age === undefined ? '' : `, last heard of ${age} ago`}.`,
  },
  answered: (action: WaitingAction, title: string) => `${DONE[action]}: ${title}`,
  sent: (action: WaitingAction, title: string, name: string) =>
    `${ACTIONS[action]}: sent to ${name}, which has not confirmed it yet: ${title}`,
  elsewhere: (message: string) => `Not taken: ${message}.`,
  failed: (message: string) => `That did not work: ${message}`,
  gone: 'It no longer waits: it was answered elsewhere, was withdrawn, or has expired.',
  agents: {
    label: 'Agents',
    none: 'This node has no agents.',
    noneHow: 'Agents of the configuration and of connected coding agents appear here.',
    noneCommand: 'ecliptic up',
    loading: 'Reading the agents.',
    columns: ['Agent', 'Tier', 'State', 'Worker', 'Load', 'Why'],
    code: 'handler in code',
    noWorker: 'none',
    tools: 'tools only',
    remote: (node: string) => `on node ${node}`,
    sandbox: (id: string) => `sandbox ${id}`,
    load: (queued: number, working: number) =>
      queued + working === 0 ? 'idle' : `${queued} queued, ${working} working`,
    staff: 'How to staff it',
    count: (all: number, unstaffed: number, unreachable: number) =>
      `${all} agents, ${unstaffed} unstaffed${unreachable > 0 ? `, ${unreachable} unreachable` : ''}`,
  },
  messages: {
    label: 'Latest messages, newest first',
    none: 'No message was routed yet.',
    noneHow: 'Every message between agents appears here, delivered or refused. Send one:',
    noneCommand: `ecliptic send --as sun --to mars '{"hello":"mars"}'`,
    loading: 'Reading the latest messages.',
    delivered: 'delivered',
    refused: 'refused',
    noText: 'payload not kept here',
  },
} as const;

export const KINDS: Readonly<Record<WaitingItem['kind'], string>> = {
  approval: 'approve',
  question: 'question',
  tool: 'changed tool',
  mail: 'mail',
  held: 'held mail',
  task: 'escalated',
  worker: 'worker',
};

export const ACTIONS: Readonly<Record<WaitingAction, string>> = {
  'allow-once': 'Allow once',
  'allow-always': 'Allow always',
  deny: 'Deny',
  reply: 'Reply',
  done: 'Done',
  'let-in': 'Let in',
  'turn-away': 'Turn away',
  approve: 'Approve',
  retry: 'Try again',
  restart: 'Restart',
};

const DONE: Readonly<Record<WaitingAction, string>> = {
  'allow-once': 'Allowed once',
  'allow-always': 'Allowed always',
  deny: 'Denied',
  reply: 'Replied',
  done: 'Closed',
  'let-in': 'Let in',
  'turn-away': 'Turned away',
  approve: 'Approved',
  retry: 'Trying again',
  restart: 'Restarting',
};

/** The key of each action in the list. */
export const ACTION_KEYS: Readonly<Partial<Record<WaitingAction, string>>> = {
  'allow-once': 'a',
  'let-in': 'a',
  approve: 'a',
  retry: 'a',
  restart: 'a',
  'allow-always': 'A',
  deny: 'd',
  'turn-away': 'd',
  done: 'd',
  reply: 'r',
};

/** The mark of each state: a shape beside the word, so that colour never stands alone. */
export const STATE_MARKS: Readonly<Record<string, readonly [mark: string, tone: string]>> = {
  ready: ['●', 'good'],
  tools: ['●', 'good'],
  healthy: ['●', 'good'],
  starting: ['◐', 'busy'],
  connected: ['●', 'good'],
  suspected: ['▲', 'warn'],
  away: ['◌', 'dim'],
  lost: ['✕', 'bad'],
  incompatible: ['✕', 'bad'],
  removed: ['◌', 'dim'],
  degraded: ['▲', 'warn'],
  unavailable: ['✕', 'bad'],
  failed: ['✕', 'bad'],
  unreachable: ['◌', 'dim'],
  unstaffed: ['◯', 'dim'],

  // Tasks, proposals, runs and swarms.
  submitted: ['○', 'dim'],
  pending: ['○', 'dim'],
  waiting: ['○', 'dim'],
  pausing: ['○', 'dim'],
  recruiting: ['○', 'dim'],
  working: ['◐', 'busy'],
  running: ['◐', 'busy'],
  active: ['◐', 'busy'],
  validating: ['◐', 'busy'],
  completing: ['◐', 'busy'],
  'input required': ['▲', 'warn'],
  'auth required': ['▲', 'warn'],
  escalating: ['▲', 'warn'],
  escalated: ['▲', 'warn'],
  completed: ['●', 'good'],
  done: ['●', 'good'],
  accepted: ['●', 'good'],
  canceled: ['✕', 'dim'],
  stopped: ['✕', 'dim'],
  blocked: ['✕', 'warn'],
  rejected: ['✕', 'bad'],
  'timed-out': ['✕', 'bad'],

  // Durable messages.
  stored: ['○', 'dim'],
  relayed: ['◐', 'busy'],
  arrived: ['◐', 'busy'],
  surfaced: ['◐', 'busy'],
  read: ['◐', 'busy'],
  replied: ['●', 'good'],
  held: ['▲', 'warn'],
  declined: ['✕', 'warn'],
  refused: ['✕', 'bad'],
  undeliverable: ['✕', 'bad'],
  expired: ['✕', 'bad'],

  // Workers, lanes and MCP servers.
  open: ['●', 'good'],
  idle: ['○', 'dim'],
  disabled: ['○', 'dim'],
  draining: ['◐', 'warn'],
  stopping: ['◐', 'warn'],
  'backing-off': ['▲', 'warn'],
  'needs-login': ['▲', 'warn'],
  quarantined: ['▲', 'warn'],
  drained: ['○', 'dim'],
  closed: ['○', 'dim'],
  terminated: ['✕', 'dim'],
};

const UNITS: readonly (readonly [ms: number, unit: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
];

/** A time span in one unit. */
export function span(ms: number): string {
  const [size, unit] = UNITS.find(([least]) => ms >= least) ?? [1_000, 's'];
  return `${Math.max(0, Math.floor(ms / size))} ${unit}`;
}
