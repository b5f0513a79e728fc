import { join } from 'node:path';
import { z } from 'zod';
import { WAITING_ACTIONS, WAITING_KINDS, type WaitingItem } from '../../http/dashboard/facts.js';
import { EclipticError } from '../../runtime/errors.js';
import { JsonFile } from '../../system/files/private-file.js';

const text = z.string().max(8_192);
const time = z.number();

/** An item as another device sends it: bounded, and without the fields that this node adds. */
export const ItemSchema = z.object({
  id: z.string().min(1).max(1_024),
  kind: z.enum(WAITING_KINDS),
  since: time.nullable(),
  until: time.nullable(),
  title: text,
  from: text,
  details: z.array(z.object({ label: text, text })).max(100),
  diff: z.array(text).max(1_000),
  actions: z.array(z.enum(WAITING_ACTIONS)).max(WAITING_ACTIONS.length),
});
export type ForeignItem = Readonly<z.infer<typeof ItemSchema>>;

const SentSchema = z.strictObject({
  /** Identifies the answer, however often it is sent. */
  answer: z.string(),
  node: z.string(),
  name: z.string(),
  item: ItemSchema,
  action: z.enum(WAITING_ACTIONS),
  text: z.string().optional(),
  at: time,
  /** Why the other node did not take it, and when this node learnt that. */
  refused: z.strictObject({ reason: z.string(), at: time }).optional(),
});
export type Sent = Readonly<z.infer<typeof SentSchema>>;

const FileSchema = z.strictObject({ version: z.literal(1), answers: z.array(SentSchema) });

const MAX_SENT = 100;

/** Answers for other devices that are not confirmed, kept across restarts, and those that were refused lately. */
export class SentAnswers {
  readonly #file: JsonFile<z.infer<typeof FileSchema>> | undefined;
  #all: readonly Sent[];

  constructor({ folder }: { folder?: string } = {}) {
    this.#file = folder === undefined ? undefined : new JsonFile(join(folder, 'sent-answers.json'), FileSchema);
    this.#all = this.#file?.load()?.answers ?? [];
  }

  get all(): readonly Sent[] {
    return this.#all;
  }

  get open(): readonly Sent[] {
    return this.#all.filter(({ refused }) => refused === undefined);
  }

  find(node: string, item: string): Sent | undefined {
    return this.#all.find((sent) => sent.node === node && sent.item.id === item);
  }

  /** Stored before it is sent, so that it is repeated after a crash. Replaces a refused answer to the same item. */
  add(sent: Sent): void {
    if (this.open.length >= MAX_SENT) {
      throw new EclipticError('QUEUE_FULL', `${MAX_SENT} answers wait for other devices already`, { limit: MAX_SENT });
    }
    this.#save([...this.#all.filter(({ node, item }) => node !== sent.node || item.id !== sent.item.id), sent]);
  }

  refuse(answer: string, reason: string, at: number): void {
    this.#save(this.#all.map((sent) => (sent.answer === answer ? { ...sent, refused: { reason, at } } : sent)));
  }

  /** Also where it cannot be stored: an answer that is sent again after a restart has no second effect. */
  remove(isOver: (sent: Sent) => boolean): void {
    const left = this.#all.filter((sent) => !isOver(sent));
    if (left.length === this.#all.length) return;
    this.#all = left;
    this.#save(left);
  }

  #save(all: readonly Sent[]): void {
    this.#file?.save({ version: 1, answers: all.slice(-2 * MAX_SENT) });
    this.#all = all.slice(-2 * MAX_SENT);
  }
}

/** An item of another device, as this node shows it. */
export function shown(device: { node: string; name: string }, item: ForeignItem, by: string, sent?: Sent): WaitingItem {
  const node = { node: device.node, name: device.name };
  const about = { ...item, id: `${item.id}@${device.node}`, node };
  if (!sent) return { ...about, answer: null };
  const { action, at, refused } = sent;
  const answer = { state: refused ? 'refused' : 'sent', action, at, by, reason: refused?.reason ?? null } as const;
  return { ...about, actions: refused ? item.actions : [], answer };
}
