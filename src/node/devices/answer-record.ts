import { join } from 'node:path';
import { z } from 'zod';
import { type GivenAnswer, WAITING_ACTIONS, type WaitingAction } from '../../http/dashboard/facts.js';
import type { A2AObservability } from '../../mesh/observability.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Approvals } from '../../system/approvals/approvals.js';
import { JsonFile } from '../../system/files/private-file.js';

/** Another device of the owner that asks this one. */
export interface AskingDevice {
  readonly node: string;
  readonly name: string;
  /** Identifies an answer, however often it is sent, with its signature by that device. */
  readonly answer?: { readonly id: string; readonly signature: string };
}

interface AnswerRecordComponents {
  runtime: Runtime;
  observability: A2AObservability;
  approvals: Pick<Approvals, 'items'>;
  /** What people call this node. */
  ownName: string;
}

const EntrySchema = z.strictObject({
  /** The item's id. */
  item: z.string(),
  action: z.enum(WAITING_ACTIONS),
  at: z.number(),
  /** The device that it was given on; null: this one. */
  by: z.strictObject({ node: z.string(), name: z.string(), answer: z.string() }).nullable(),
});
type Entry = Readonly<z.infer<typeof EntrySchema>>;

const FileSchema = z.strictObject({ version: z.literal(1), answers: z.array(EntrySchema) });

const MAX_ENTRIES = 500;
/** The decider of an approval request that was not answered in time. */
const TIMEOUT = 'timeout';

/** The answers that this node took, with the device of each: so an answer counts once, and a late one learns of the first. */
export class AnswerRecord {
  readonly #components: AnswerRecordComponents;
  readonly #file: JsonFile<z.infer<typeof FileSchema>> | undefined;
  /** Answers to one item are carried out one after another. */
  readonly #turns = new Map<string, Promise<unknown>>();
  #answers: readonly Entry[];

  constructor(components: AnswerRecordComponents, { folder }: { folder?: string } = {}) {
    this.#components = components;
    this.#file = folder === undefined ? undefined : new JsonFile(join(folder, 'answers.json'), FileSchema);
    this.#answers = this.#file?.load()?.answers ?? [];
  }

  /** Carries out an answer in its turn. One that was carried out before, and comes again, has no second effect. */
  async carryOut(
    item: string,
    action: WaitingAction,
    device: AskingDevice | undefined,
    act: () => Promise<unknown>,
  ): Promise<void> {
    const turn = (this.#turns.get(item) ?? Promise.resolve())
      .catch(() => {})
      .then(async () => {
        if (this.#isKnown(item, action, device)) return;
        await act();
        this.#note(item, action, device);
      });
    this.#turns.set(item, turn);
    try {
      await turn;
    } finally {
      if (this.#turns.get(item) === turn) this.#turns.delete(item);
    }
  }

  /** Why an item that no longer waits cannot be answered. */
  whyGone(item: string): EclipticError {
    const { runtime, ownName } = this.#components;
    const found = this.#found(item);
    if (!found) {
      const message = `nothing with the id "${item}" waits for you; it may have been answered elsewhere`;
      return new EclipticError('APPROVAL_NOT_FOUND', message, { id: item });
    }
    const { action, at, by } = found;
    const name = by === null ? ownName : by.name;
    const when = ago(runtime.now() - at);
    const message =
      name === TIMEOUT
        ? `denied on ${ownName} ${when}, because no answer came in time`
        : `answered on ${ownName}${by === null ? '' : ` by ${name}`}, ${action}, ${when}`;
    return new EclipticError('ALREADY_ANSWERED', message, { id: item, action, at, on: ownName, by: name });
  }

  /** The last answer to an item; null where none is recorded. */
  given(item: string): GivenAnswer | null {
    const found = this.#found(item);
    if (!found) return null;
    const { action, at, by } = found;
    return { action, at, by: by === null ? this.#components.ownName : by.name === TIMEOUT ? null : by.name };
  }

  #found(item: string): Omit<Entry, 'item'> | undefined {
    return this.#answers.findLast((entry) => entry.item === item) ?? this.#decided(item);
  }

  /** Was this very answer carried out before? A crash may have kept it out of this record, but not out of the approvals'. */
  #isKnown(item: string, action: WaitingAction, device: AskingDevice | undefined): boolean {
    if (!device) return false;
    const decided = this.#decided(item);
    if (decided?.by?.name === deciderOf(device) && decided.action === verdictOf(action)) return true;
    return this.#answers.some((entry) => {
      const { by } = entry;
      const isSame = by?.node === device.node && by.answer === device.answer?.id;
      return isSame && entry.item === item && entry.action === action;
    });
  }

  #note(item: string, action: WaitingAction, device: AskingDevice | undefined): void {
    const { runtime, observability } = this.#components;
    const at = runtime.now();
    const by = device ? { node: device.node, name: device.name, answer: device.answer?.id ?? '' } : null;
    this.#answers = [...this.#answers.slice(1 - MAX_ENTRIES), { item, action, at, by }];
    if (device) {
      const details = { item, action, by: device.name, ...device.answer };
      observability.emit({
        ...{ type: 'action', topic: 'owner.answered', sender: 'operator', node: device.node, details },
        ...{ success: true, timestamp: at },
      });
    }
    try {
      this.#file?.save({ version: 1, answers: [...this.#answers] });
    } catch (error) {
      // The answer has had its effect, so its sender must not be told that it failed.
      runtime.logger.error({ item, error: describeError(error) }, 'answer could not be recorded');
    }
  }

  /** Approval requests record their decisions themselves, also those that were made by another command or by time. */
  #decided(item: string): Omit<Entry, 'item'> | undefined {
    const id = /^(?:approval|tool):(.+)$/s.exec(item)?.[1];
    const decision = this.#components.approvals.items.find((one) => one.id === id)?.decision;
    if (!decision) return undefined;
    const { verdict: action, at, by } = decision;
    return { action, at, by: by === 'operator' ? null : { node: '', name: by, answer: '' } };
  }
}

/** The decider in the record of an approval request: another device, or the operator at this one. */
export function deciderOf(device: AskingDevice | undefined): string {
  return device ? `${device.name} (${device.node.slice(0, 12)})` : 'operator';
}

/** `approve`, the answer to a changed tool, is recorded as a verdict. */
function verdictOf(action: WaitingAction): WaitingAction {
  return action === 'approve' ? 'allow-once' : action;
}

export function ago(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s ago`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3_600)} h ago`;
}
