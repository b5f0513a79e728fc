import { z } from 'zod';
import {
  type Answered,
  type GivenAnswer,
  type MissingDevice,
  WAITING_ACTIONS,
  type Waiting,
  type WaitingAction,
  type WaitingItem,
} from '../../http/dashboard/facts.js';
import { within } from '../../runtime/async.js';
import { describeError, EclipticError, type ErrorCode } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { ago } from './answer-record.js';
import type { Told } from './device-exchange.js';
import type { OwnerDevice, OwnerDevices } from './owner-devices.js';
import { type ForeignItem, ItemSchema, type Sent, SentAnswers, shown } from './sent-answers.js';

interface WaitingElsewhereComponents {
  runtime: Runtime;
  devices: Pick<OwnerDevices, 'list' | 'ask' | 'askAgain' | 'onConnected' | 'ownName'>;
}

/** What this node knows of one device's items. */
interface View {
  told: Told | undefined;
  items: readonly ForeignItem[];
  /** Items that this node cannot show, or that the device could not send. */
  left: string | undefined;
  /** By the stopwatch: when it answered last, and when it was asked last. */
  answered: number;
  asked: number;
  answeredAt: number | null;
  asking: Promise<void> | undefined;
  failure: string | undefined;
}

/** An answer younger than this is not asked for again. */
const FRESH_MS = 800;
/** An answer older than this is not shown as current. */
const CURRENT_MS = 3_000;
/** How long a reader waits for the devices. */
const WAIT_MS = 1_000;
const RETRY_MS = 5_000;
/** How long a refused answer is shown. */
const REFUSED_MS = 600_000;
/** How long an answer is repeated, at most; one to a request with a deadline until shortly after it. */
const LONGEST_MS = 7 * 86_400_000;
const GRACE_MS = 60_000;
const MAX_ITEMS = 500;
const MAX_TEXT = 32_768;

const GivenSchema = z
  .object({ action: z.enum(WAITING_ACTIONS), at: z.number(), by: z.string().max(200).nullable() })
  .nullable();

/** Failures of the way to the device, not of the answer. */
const ON_THE_WAY: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PEER_UNREACHABLE',
  'DELIVERY_FAILED',
  'AGENT_UNAVAILABLE',
  'RATE_LIMITED',
  'NODE_STOPPED',
]);

/** What waits for the owner on the other devices, and the answers that this device sends them. */
export class WaitingElsewhere {
  readonly #components: WaitingElsewhereComponents;
  readonly #sent: SentAnswers;
  readonly #views = new Map<string, View>();
  /** Answers that are being sent at present. */
  readonly #sending = new Set<string>();
  #timer: Timer | undefined;
  #closed = false;

  constructor(components: WaitingElsewhereComponents, init: { folder?: string } = {}) {
    this.#components = components;
    this.#sent = new SentAnswers(init);
  }

  /** Begins to repeat answers that were not confirmed in an earlier run. */
  start(): void {
    this.#components.devices.onConnected((node) => this.#retry(({ node: to }) => to === node));
    this.#retryLater();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** The keys of the owner's other devices. */
  get keys(): readonly string[] {
    return this.#components.devices.list().map(({ node }) => node);
  }

  /** The items of all devices that answer; the others are named as missing. */
  async read(): Promise<Waiting> {
    const { runtime, devices } = this.#components;
    const asked = devices.list().flatMap(({ node, connected }) => (connected ? (this.#refresh(node) ?? []) : []));
    if (asked.length > 0) await within(runtime, Promise.all(asked), WAIT_MS, () => undefined);
    const now = runtime.now();
    this.#remove(({ refused }) => refused !== undefined && now - refused.at > REFUSED_MS);
    const known = devices.list();
    for (const node of this.#views.keys()) if (!known.some((one) => one.node === node)) this.#views.delete(node);
    const seen = known.map((device) => this.#seen(device));
    const gone = this.#sent.all.filter(({ node }) => !known.some((one) => one.node === node));
    return {
      items: [...seen.flatMap(({ items }) => items), ...gone.map((sent) => this.#shown(sent, sent.item))],
      missing: seen.flatMap(({ missing }) => missing),
    };
  }

  /** Answers an item of another device: `sent` until that device confirms it. */
  async answer(node: string, id: string, action: WaitingAction, text: string | undefined): Promise<Answered> {
    const { runtime, devices } = this.#components;
    const device = devices.list().find((one) => one.node === node);
    if (!device) {
      const message = `node ${node.slice(0, 12)} is no device of yours, or this one joined without: ecliptic invite --owner`;
      throw new EclipticError('NOT_GRANTED', message, { node });
    }
    if (text !== undefined && text.length > MAX_TEXT) {
      throw new EclipticError('USAGE', `a reply to another device has at most ${MAX_TEXT} characters`);
    }
    const before = this.#sent.find(node, id);
    if (before && !before.refused) {
      const when = ago(runtime.now() - before.at);
      const message = `${before.action} was sent to ${device.name} ${when}, which has not confirmed it yet`;
      throw new EclipticError('ALREADY_ANSWERED', message, { id, action: before.action, at: before.at });
    }
    const answered = { id: `${id}@${node}`, action, node: { node, name: device.name } };
    const answer = { answer: runtime.id(), action, ...(text !== undefined && { text }), at: runtime.now() };
    const item = this.#views.get(node)?.items.find((one) => one.id === id);
    if (!item) {
      // Without the item there is nothing to show while the answer is not confirmed.
      await devices.ask(node, 'waiting.answer', { ...answer, id });
      return { ...answered, state: 'confirmed' };
    }
    if (!item.actions.includes(action)) {
      const offered = item.actions.join(', ') || 'nothing';
      throw new EclipticError('USAGE', `"${action}" is no answer to ${answered.id}; it takes ${offered}`, {
        parameter: 'action',
      });
    }
    const sent: Sent = { ...answer, node, name: device.name, item };
    this.#sent.add(sent);
    const refusal = await this.#send(sent);
    if (refusal) {
      this.#remove((one) => one.answer === sent.answer);
      throw refusal;
    }
    const isOpen = this.#sent.open.some((one) => one.answer === sent.answer);
    return { ...answered, state: isOpen ? 'sent' : 'confirmed' };
  }

  /** The answer that another device took to its item; null where it has none, is away, or is of an older release. */
  async given(node: string, id: string): Promise<GivenAnswer | null> {
    const { runtime, devices } = this.#components;
    if (!devices.list().some((one) => one.node === node && one.connected)) return null;
    try {
      const told = within(runtime, devices.ask(node, 'waiting.answered', { id }), WAIT_MS, () => null);
      return GivenSchema.parse(await told);
    } catch {
      return null;
    }
  }

  /** Sends an answer. Returns the refusal, if it is refused; without one, it was confirmed or stays open. */
  async #send(sent: Sent): Promise<EclipticError | undefined> {
    const { answer, node, item, action, text, at } = sent;
    const params = { answer, id: item.id, action, ...(text !== undefined && { text }), at };
    this.#sending.add(answer);
    try {
      await this.#components.devices.ask(node, 'waiting.answer', params);
      this.#remove((one) => one.answer === answer);
    } catch (thrown) {
      const error = thrown as EclipticError;
      if (!ON_THE_WAY.has(error.code)) return error;
      this.#retryLater();
    } finally {
      this.#sending.delete(answer);
      this.#outdate(node, item.id);
    }
    return undefined;
  }

  #remove(isOver: (sent: Sent) => boolean): void {
    try {
      this.#sent.remove(isOver);
    } catch (error) {
      this.#components.runtime.logger.error({ error: describeError(error) }, 'sent answers could not be stored');
    }
  }

  #retryLater(): void {
    if (this.#closed || this.#timer || this.#sent.open.length === 0) return;
    this.#timer = this.#components.runtime.setTimer(() => {
      this.#timer = undefined;
      this.#retry(() => true);
      this.#retryLater();
    }, RETRY_MS);
  }

  #retry(isMeant: (sent: Sent) => boolean): void {
    const { runtime, devices } = this.#components;
    const now = runtime.now();
    const known = new Map(devices.list().map((device) => [device.node, device]));
    for (const sent of this.#sent.open) {
      if (!isMeant(sent) || this.#sending.has(sent.answer)) continue;
      const { node, name, item, at } = sent;
      const until = item.until === null ? at + LONGEST_MS : item.until + GRACE_MS;
      const device = known.get(node);
      if (now > until) this.#refused(sent, `${name} did not confirm it in time`);
      else if (!device) this.#refused(sent, `${name} is no longer a device of yours`);
      else if (device.connected) {
        void this.#send(sent).then((refusal) => refusal && this.#refused(sent, refusal.message));
      }
    }
  }

  #refused({ answer, item, action, node }: Sent, reason: string): void {
    const { runtime } = this.#components;
    runtime.logger.warn({ item: item.id, action, node, reason }, 'answer for another device refused');
    try {
      this.#sent.refuse(answer, reason, runtime.now());
    } catch (error) {
      runtime.logger.error({ item: item.id, error: describeError(error) }, 'refused answer could not be stored');
    }
  }

  /** Asks a device again unless its answer is fresh. Returns a question that is worth waiting for. */
  #refresh(node: string): Promise<void> | undefined {
    const { runtime } = this.#components;
    const view = this.#views.get(node) ?? newView();
    this.#views.set(node, view);
    const now = runtime.stopwatch();
    if (view.asking) return now - view.asked < WAIT_MS ? view.asking : undefined;
    if (now - view.answered < FRESH_MS) return undefined;
    view.asked = now;
    view.asking = this.#ask(node, view).finally(() => {
      view.asking = undefined;
    });
    return view.asking;
  }

  async #ask(node: string, view: View): Promise<void> {
    const { runtime, devices } = this.#components;
    try {
      const told = await devices.askAgain(node, 'waiting', view.told);
      if (told !== view.told) Object.assign(view, readItems(told));
      view.answered = runtime.stopwatch();
      view.answeredAt = runtime.now();
      view.failure = undefined;
    } catch (error) {
      view.answered = Number.NEGATIVE_INFINITY;
      const { code, details } = error as EclipticError;
      view.failure = code === 'PEER_UNREACHABLE' ? String(details.reason) : describeError(error);
    }
  }

  /** An answer has changed that device's items: what was asked before does not count. */
  #outdate(node: string, item: string): void {
    const view = this.#views.get(node);
    if (!view) return;
    const items = view.items.filter(({ id }) => id !== item || this.#sent.find(node, item));
    this.#views.set(node, { ...newView(), items, answeredAt: view.answeredAt });
  }

  #seen({ node, name, connected, lastHeardAt }: OwnerDevice): { items: WaitingItem[]; missing: MissingDevice[] } {
    const view = this.#views.get(node);
    const age = this.#components.runtime.stopwatch() - (view?.answered ?? Number.NEGATIVE_INFINITY);
    const isCurrent = connected && view !== undefined && age <= CURRENT_MS;
    const items = isCurrent ? view.items : [];
    const sent = this.#sent.all.filter((one) => one.node === node && !items.some(({ id }) => id === one.item.id));
    const device = { node, name };
    const reason = connected ? (view?.failure ?? 'it did not answer in time') : 'it is not connected';
    const since = connected ? (view?.answeredAt ?? null) : lastHeardAt;
    const missing = isCurrent
      ? view.left === undefined
        ? []
        : [{ ...device, since: view.answeredAt, reason: view.left }]
      : [{ ...device, since, reason }];
    return {
      items: [...items, ...sent.map(({ item }) => item)].map((item) => this.#shown(device, item)),
      missing,
    };
  }

  #shown(device: { node: string; name: string }, item: ForeignItem): WaitingItem {
    return shown(device, item, this.#components.devices.ownName, this.#sent.find(device.node, item.id));
  }
}

function newView(): View {
  const never = Number.NEGATIVE_INFINITY;
  const times = { answered: never, asked: never, answeredAt: null };
  return { told: undefined, items: [], left: undefined, ...times, asking: undefined, failure: undefined };
}

/** The items in another device's answer. Those that this release cannot read are counted. */
function readItems(told: Told): Pick<View, 'told' | 'items' | 'left'> {
  const { items, missing } = (told.result ?? {}) as Partial<Record<keyof Waiting, unknown>>;
  if (!Array.isArray(items)) {
    throw new EclipticError('INVALID_RESULT', 'its answer cannot be read');
  }
  const read = items.slice(0, MAX_ITEMS).map((item) => ItemSchema.safeParse(item));
  const good = read.flatMap(({ data }) => data ?? []);
  const bad = items.length - good.length;
  const reason = (Array.isArray(missing) ? missing[0] : undefined)?.reason;
  const left = typeof reason === 'string' ? reason.slice(0, 200) : undefined;
  return { told, items: good, left: left ?? (bad > 0 ? `${bad} of its items cannot be shown` : undefined) };
}
