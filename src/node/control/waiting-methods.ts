import { textOf as textOfParts } from '../../a2a/protocol/simple.js';
import { OWNER } from '../../coding-agents/mailbox/letter.js';
import {
  DETAIL_CHARS,
  type Detail,
  detailText,
  type WaitingAction,
  type WaitingItem,
} from '../../http/dashboard/facts.js';
import type { RunSummary } from '../../plans/run-records.js';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { timeOfUlid } from '../../runtime/ulid.js';
import type { Approval } from '../../system/approvals/approval-queue.js';
import type { AskingDevice } from '../devices/answer-record.js';
import { type ControlContext, completeId, type Handlers } from './context.js';
import type { MailRow } from './rows.js';
import type { CallContext } from './server.js';

/** The operations that items are read from and answered by: the same that the commands use. */
type Used = Pick<
  Handlers,
  | 'approvals'
  | 'approvals.decide'
  | 'tools.pins'
  | 'tools.approve'
  | 'inbox'
  | 'tell'
  | 'owner.done'
  | 'held'
  | 'held.letIn'
  | 'held.turnAway'
  | 'runs'
  | 'run'
  | 'tasks'
  | 'task'
  | 'task.answer'
  | 'providers'
  | 'provider.restart'
>;

const ALONE: CallContext<never> = {
  emit: () => {},
  drained: () => Promise.resolve(),
  signal: new AbortController().signal,
};

const TITLE_CHARS = 200;
/** Further lines of a difference are left out. */
const DIFF_LINES = 200;
const MAX_ITEMS = 500;
const MAX_RUNS = 20;
const MAX_TASKS = 50;
/** Shown by other means: the agent, and the thread that `ecliptic thread` shows. */
const HIDDEN_DETAILS: ReadonlySet<string> = new Set(['agent', 'correlationId', 'diff']);

/** An item of another node: its id there, and the key of that node, which may be shortened. */
const FOREIGN = /^(.+)@([0-9a-f]{4,64})$/s;

const KEY_CHARS = 64;

type OwnItem = Omit<WaitingItem, 'node' | 'answer'>;
type Context = Pick<ControlContext, 'node' | 'dashboard' | 'loop' | 'answers' | 'elsewhere' | 'notifier'>;

/** Everything that waits for the owner, from every part of the node, and the answers to it. */
export function waitingMethods({ node, dashboard, loop, answers, elsewhere, notifier }: Context, on: Used) {
  const list = async (): Promise<readonly WaitingItem[]> => {
    const found = await Promise.all([
      ...[approvals(on), questions(on), mail(node, on), held(on)],
      ...[runItems(on), workers(on)],
    ]);
    return byAge(found.flat().map((item) => ({ ...item, node: null, answer: null })));
  };
  const perform = async (
    item: WaitingItem,
    action: WaitingAction,
    text: string | undefined,
    device: AskingDevice | undefined,
  ): Promise<unknown> => {
    const id = item.id.slice(item.kind.length + 1);
    switch (action) {
      case 'allow-once':
      case 'allow-always':
      case 'deny':
        return on['approvals.decide']({ verdict: action, ids: [id] }, { ...ALONE, device });
      case 'approve':
        return on['tools.approve']({ subject: id }, { ...ALONE, device });
      case 'reply':
        if (!text?.trim()) throw new EclipticError('USAGE', 'a reply needs a text', { parameter: 'text' });
        if (item.kind === 'question') return on['task.answer']({ id, text }, ALONE);
        return on.tell({ to: item.from, text, replyTo: id }, ALONE);
      case 'done':
        return on['owner.done']({ ids: [id] }, ALONE);
      case 'let-in':
        return on['held.letIn']({ id }, ALONE);
      case 'turn-away':
        return on['held.turnAway']({ id }, ALONE);
      case 'retry':
        return loop.again(id.split('/')[0]!);
      case 'restart':
        return on['provider.restart']({ id }, ALONE);
    }
  };
  const wholeKey = (beginning: string): string | undefined => {
    const key = completeId(beginning, [node.registry.nodeKey ?? [], ...(elsewhere?.keys ?? [])].flat());
    return key.length === KEY_CHARS ? key : undefined;
  };
  const answerHere = (id: string, action: WaitingAction, text: string | undefined, device?: AskingDevice) =>
    answers.carryOut(id, action, device, async () => {
      const item = (await list()).find((one) => one.id === id);
      if (!item) throw answers.whyGone(id);
      if (!item.actions.includes(action)) {
        const offered = item.actions.join(', ') || 'nothing';
        throw new EclipticError('USAGE', `"${action}" is no answer to ${id}; it takes ${offered}`, {
          parameter: 'action',
        });
      }
      await perform(item, action, text, device);
    });
  return {
    'page.open': () => dashboard.link(),
    'page.revoke': () => ({ ended: dashboard.revoke() }),
    async waiting({ local }) {
      const items = await list();
      if (local || !elsewhere) return { items, missing: [] };
      const others = await elsewhere.read();
      return { items: byAge([...items, ...others.items]), missing: others.missing };
    },
    async 'waiting.answer'({ id: given, action, text, local }, { device }) {
      const own = device ? [] : await list();
      const isOwn = (id: string) => local || device !== undefined || own.some((one) => one.id === id);
      const others = isOwn(given) || !elsewhere ? [] : (await elsewhere.read()).items;
      const id = completeId(given, [...own, ...others]);
      const [, item, beginning] = isOwn(id) ? [] : (FOREIGN.exec(id) ?? []);
      // An item that waits no longer is on no list: its device is asked, which knows what became of it.
      const key = beginning === undefined ? undefined : wholeKey(beginning);
      // Another device shows an item of this one with the key of this one.
      const here = key === node.registry.nodeKey ? item : undefined;
      if (elsewhere && key !== undefined && !here) return elsewhere.answer(key, item!, action, text);
      await answerHere(here ?? id, action, text, device);
      return { id: here ?? id, action, state: 'confirmed', node: null };
    },
    notify: () => ({ bell: notifier.bell, ways: notifier.ways }),
    'notify.test': () => notifier.test(),
    async 'waiting.answered'({ id, local }) {
      const [, item, key] = local ? [] : (FOREIGN.exec(id) ?? []);
      if (item === undefined || key === undefined) return answers.given(id);
      if (key === node.registry.nodeKey) return answers.given(item);
      return (await elsewhere?.given(key, item)) ?? null;
    },
  } satisfies Partial<Handlers>;
}

/** Approval requests; those about definitions of MCP servers carry the difference. */
async function approvals(on: Used): Promise<OwnItem[]> {
  const pins = new Map((await on['tools.pins']({}, ALONE)).flatMap((pin) => (pin.id === null ? [] : [[pin.id, pin]])));
  return (await on.approvals({}, ALONE)).map((approval): OwnItem => {
    const { id, createdAt: since, expiresAt: until = null, summary } = approval;
    const pin = pins.get(id);
    const about = { since, until, title: cutText(summary, TITLE_CHARS), details: detailsOf(approval) };
    if (!pin) {
      const from = String(approval.details.agent ?? approval.kind);
      return { id: `approval:${id}`, kind: 'approval', ...about, from, diff: diffOf(approval), actions: VERDICTS };
    }
    const diff = shownLines(pin.diff);
    return {
      id: `tool:${id}`,
      kind: 'tool',
      ...about,
      from: pin.server,
      details: [],
      diff,
      actions: ['approve', 'deny'],
    };
  });
}

/** The change of a file that the approval is about. */
function diffOf({ details }: Approval): string[] {
  return Array.isArray(details.diff) ? shownLines(details.diff.map(String)) : [];
}

function shownLines(diff: readonly string[]): string[] {
  return diff.slice(0, DIFF_LINES).map((line) => cutText(line, DETAIL_CHARS));
}

const VERDICTS: readonly WaitingAction[] = ['allow-once', 'allow-always', 'deny'];

function detailsOf({ details }: Approval): Detail[] {
  const command = (details.input as { command?: unknown } | undefined)?.command;
  const { rule, ...facts } = details;
  const shown = { ...(typeof command === 'string' && { command }), ...facts, rule: rule && JSON.stringify(rule) };
  return Object.entries(shown)
    .filter(([label, value]) => value !== null && value !== undefined && !HIDDEN_DETAILS.has(label))
    .map(([label, value]) => ({ label, text: textOf(value) }));
}

/** Tasks that the owner gave, and that wait for the owner's words. */
async function questions(on: Used): Promise<OwnItem[]> {
  const state = 'TASK_STATE_INPUT_REQUIRED';
  const rows = await on.tasks({ kind: 'a2a', state, caller: OWNER, limit: MAX_TASKS }, ALONE);
  return Promise.all(
    rows.map(async ({ id, agent, text }): Promise<OwnItem> => {
      const { task } = await on.task({ id }, ALONE);
      const { message, timestamp } = task.status;
      const question = message ? textOfParts(message.parts) : '';
      const about = {
        since: timestamp ? Date.parse(timestamp) : null,
        until: null,
        title: firstLine(question),
        from: agent,
      };
      const details = [
        { label: 'question', text: cutText(question, DETAIL_CHARS) },
        { label: 'task', text: `${text} (${id})` },
      ];
      return { id: `question:${id}`, kind: 'question', ...about, details, diff: [], actions: ['reply'] };
    }),
  );
}

async function mail(node: ControlContext['node'], on: Used): Promise<OwnItem[]> {
  if (!node.mail) return [];
  const rows = await on.inbox({ as: OWNER }, ALONE);
  // Held mail is in the inbox too; its sender waits to be let in first.
  const strangers = new Set((await on.held({}, ALONE)).map(({ id }) => id));
  const letters = rows.filter(({ id }) => !strangers.has(id));
  return letters.map(({ id, from, at, expiresAt, payload }: MailRow): OwnItem => {
    const { text: said, mesh } = (payload ?? {}) as { text?: unknown; mesh?: { needs?: unknown } };
    const needs = typeof mesh?.needs === 'string' && mesh.needs !== 'none' ? mesh.needs : undefined;
    const text = textOf(typeof said === 'string' ? said : payload);
    const about = { since: at, until: expiresAt, title: firstLine(text), from };
    const details = [{ label: 'message', text }, ...(needs === undefined ? [] : [{ label: 'needs', text: needs }])];
    return { id: `mail:${id}`, kind: 'mail', ...about, details, diff: [], actions: ['reply', 'done'] };
  });
}

async function held(on: Used): Promise<OwnItem[]> {
  return (await on.held({}, ALONE)).map(({ id, from, to, reason, text }): OwnItem => {
    const about = { since: timeOfUlid(id) ?? null, until: null, title: firstLine(text), from };
    const details = [
      { label: 'to', text: to },
      { label: 'held because', text: reason },
      { label: 'message', text: cutText(text, DETAIL_CHARS) },
    ];
    return { id: `held:${id}`, kind: 'held', ...about, details, diff: [], actions: ['let-in', 'turn-away'] };
  });
}

async function runItems(on: Used): Promise<OwnItem[]> {
  const runs = (await on.runs({}, ALONE)).filter(({ status }) => status === 'escalated' || status === 'running');
  return (await Promise.all(runs.slice(0, MAX_RUNS).map((run) => tasksOf(run, on)))).flat();
}

/** A run can be tried again only when it has ended. */
async function tasksOf(summary: RunSummary, on: Used): Promise<OwnItem[]> {
  const { id, name, status, tasks } = await on.run({ id: summary.id }, ALONE);
  return tasks
    .filter(({ phase }) => phase === 'escalated')
    .map((task): OwnItem => {
      const why = task.reason === null ? [] : [{ label: 'reason', text: textOf(task.reason) }];
      const details = [
        { label: 'run', text: `${name} (${id})` },
        { label: 'attempts', text: `${task.attempt}` },
        ...why,
      ];
      const about = { since: task.since, until: null, title: `${name}: task ${task.id} failed`, from: task.by ?? name };
      const actions: readonly WaitingAction[] = status === 'escalated' ? ['retry'] : [];
      return { id: `task:${id}/${task.id}`, kind: 'task', ...about, details, diff: [], actions };
    });
}

/** Providers that need help: a start that failed, or a health check that does. */
async function workers(on: Used): Promise<OwnItem[]> {
  const rows = await on.providers({}, ALONE);
  const stuck = rows.filter(({ phase, state }) => {
    return phase === 'failed' || (phase === 'ready' && (state === 'degraded' || state === 'unavailable'));
  });
  return stuck.map(({ id, type, phase, state, message, failureCount }): OwnItem => {
    const title = `worker ${id} is ${phase === 'ready' ? state : phase}`;
    const details = [
      { label: 'type', text: type },
      ...(message === null ? [] : [{ label: 'reason', text: cutText(message, DETAIL_CHARS) }]),
      ...(failureCount === 0 ? [] : [{ label: 'failures', text: `${failureCount}` }]),
    ];
    const about = { since: null, until: null, title, from: id };
    return { id: `worker:${id}`, kind: 'worker', ...about, details, diff: [], actions: ['restart'] };
  });
}

function byAge(items: readonly WaitingItem[]): readonly WaitingItem[] {
  return [...items].sort((a, b) => (a.since ?? Number.MAX_VALUE) - (b.since ?? Number.MAX_VALUE)).slice(0, MAX_ITEMS);
}

function textOf(value: unknown): string {
  return cutText(detailText(value), DETAIL_CHARS);
}

function firstLine(text: string): string {
  return cutText(text.trim().split('\n')[0] ?? '', TITLE_CHARS);
}
