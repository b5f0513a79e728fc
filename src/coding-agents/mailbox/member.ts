import type { Agent } from '../../agent/agent.js';
import type { Mail } from '../../mail/mail.js';
import { ANSWER_BYTES, fenceMark, oneLine, partOf, roomFor } from '../../mcp/fence.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { AgentCard } from '../../mesh/schemas.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Leases } from '../leases/leases.js';
import type { Radar } from '../radar/radar.js';
import type { LetterLog } from './letter-log.js';
import { type LoopGuard, Repeats } from './loop-guard.js';
import type { MemberMail, OpenLetter } from './member-mail.js';
import { MemberTasks } from './member-tasks.js';
import type { PeerNames } from './names.js';
import { fenced, type Provenance } from './provenance.js';

/** When an agent sees its mail: at once, at the end of its turn, or when it calls mesh_inbox. */
export type SeesMail = 'wakes' | 'next_turn' | 'polls';

export interface MemberComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  mail: Mail;
  names: PeerNames;
  log: LetterLog;
  loops: LoopGuard;
  leases: Leases;
  radar: Radar | undefined;
  relationOf: (address: string) => Provenance['relation'];
  /** Allows the agent at that address to write back. */
  acquaint: (address: string) => Promise<void>;
}

/** Unread messages that one result announces. */
const ANNOUNCED = 3;
/** Bytes of a message's header, and the least room in which another message is begun. */
const HEADER_BYTES = 250;
const LEAST_ROOM = 1_000;
const MAIL_PROTOCOL = 'ecliptic-mail/';

/** A coding agent whose process is connected: its name, its mailbox and its tasks. */
export class Member {
  readonly name: string;
  readonly agent: Agent;
  /** The folder that it works in. */
  readonly checkout: string;
  readonly box: MemberMail;
  readonly runtime: Runtime;
  readonly registry: AgentRegistry;
  readonly mail: Mail;
  readonly names: PeerNames;
  readonly log: LetterLog;
  readonly loops: LoopGuard;
  readonly leases: Leases;
  readonly radar: Radar | undefined;
  readonly tasks: MemberTasks;
  readonly repeats: Repeats;
  readonly acquaint: MemberComponents['acquaint'];
  readonly #relationOf: MemberComponents['relationOf'];
  #seesMail: SeesMail = 'polls';

  constructor(components: MemberComponents, agent: Agent, box: MemberMail, checkout: string) {
    this.name = agent.id;
    this.agent = agent;
    this.checkout = checkout;
    this.box = box;
    this.runtime = components.runtime;
    this.registry = components.registry;
    this.mail = components.mail;
    this.names = components.names;
    this.log = components.log;
    this.loops = components.loops;
    this.leases = components.leases;
    this.radar = components.radar;
    this.acquaint = components.acquaint;
    this.#relationOf = components.relationOf;
    this.repeats = new Repeats(this.runtime);
    this.tasks = new MemberTasks(agent);
    agent
      // A message that is not durable is stored too: the client reads its mail only when it calls a tool.
      .onMessage(async ({ envelope }) => void (await this.mail.keep(envelope, this.registry.entry(this.name)!)))
      .onUnread(({ messageId, reason }) => this.#reportUnread(messageId, reason));
  }

  get seesMail(): SeesMail {
    return this.#seesMail;
  }

  /** Published on the card; `wakes` only after a wake test passed. */
  set seesMail(seesMail: SeesMail) {
    if (this.#seesMail === seesMail) return;
    this.#seesMail = seesMail;
    this.agent.update({ protocols: [mailProtocol(seesMail)] });
  }

  /** One line about mail that this session has not heard of; each message is announced once. */
  async announce(): Promise<string[]> {
    const fresh = (await this.box.unread(ANNOUNCED * 10)).filter(({ announced }) => !announced);
    if (fresh.length === 0) return [];
    for (const open of fresh) open.announced = true;
    const lines = fresh.slice(0, ANNOUNCED).map(({ held, from, letter, origin }) => {
      const needs = letter.needs === 'none' ? '' : ` needs ${letter.needs}`;
      const sender = origin === 'node' ? 'your node' : this.names.display(from);
      return `${held.envelope.id} from ${sender}${needs}`;
    });
    return [`${fresh.length} unread: ${lines.join('; ')}; call mesh_inbox.`];
  }

  /**
   * Renders as many messages as fit into one answer. `shown` has the ids of those that the answer contains to their last
   * character: only these count as shown by that call.
   */
  async present(letters: readonly OpenLetter[], call: number) {
    const texts: string[] = [];
    const shown: string[] = [];
    let room = ANSWER_BYTES;
    for (const open of letters) {
      const { text } = open.letter;
      const from = open.shownTo;
      const part = partOf(text, from, room);
      const ends = part.to === text.length;
      // Begin a further message only where a useful part of it fits.
      if (texts.length > 0 && (room < LEAST_ROOM || (from === 0 && !ends))) break;
      this.box.showPart(open, part.to, call);
      if (ends) {
        this.box.show([open], call);
        await this.log.note(this.name, open);
        for (const ref of open.letter.attachments) this.agent.objects.note(ref);
        shown.push(open.held.envelope.id);
      }
      texts.push(this.#fenced(open, part.text, partNote(from, part.to, text.length)));
      if (!ends) break;
      room -= roomFor(part.text) + HEADER_BYTES;
    }
    return { texts, shown };
  }

  /** A fresh delimiter for a peer's text, which its writer cannot know. */
  mark(): string {
    return fenceMark(this.runtime);
  }

  describe(summary: string): void {
    this.agent.update({ description: oneLine(summary, 120) });
  }

  /** The process has ended. The mailbox stays. */
  leave(): void {
    this.box.endSession();
    this.agent.leave();
  }

  #fenced({ held, from, letter, origin, redelivered }: OpenLetter, text: string, note: string): string {
    const { needs, hops } = letter;
    const about = { id: held.envelope.id, from: this.names.display(from), key: this.names.keyOf(from) };
    const relation = this.#relationOf(from);
    const files = letter.attachments.map(({ object }) => `\nFile: ecliptic object get ${object} --out FILE`);
    return fenced({ ...about, relation, origin, needs, hops, redelivered }, text, this.mark()) + note + files.join('');
  }

  /** Tells the member, by mail that outlives this session, that its message was not read in time. */
  #reportUnread(id: string, reason: string): void {
    const text = `Your message ${id}: ${reason}. mesh_lookup tells more; do not resend it.`;
    this.agent
      .send(this.name, { text, mesh: { needs: 'none', hops: 0, notice: true } }, { durable: true })
      .catch((err: unknown) => this.runtime.logger.error({ member: this.name, err }, 'unread notice not stored'));
  }
}

function partNote(from: number, to: number, of: number): string {
  if (from === 0 && to === of) return '';
  const rest = to < of ? '; the rest comes with the next mesh_inbox' : '; this is the end of it';
  return `\n(characters ${from + 1} to ${to} of ${of}${rest})`;
}

/** The entry of a card's `protocols` that says when the agent sees its mail. */
export function mailProtocol(seesMail: SeesMail): string {
  return `${MAIL_PROTOCOL}${seesMail}`;
}

/** An agent without a mail protocol has a handler, which runs at once for every message. */
export function hasHandler({ protocols }: AgentCard): boolean {
  return !protocols.some((protocol) => protocol.startsWith(MAIL_PROTOCOL));
}

export function seesMailOf({ protocols }: AgentCard): SeesMail {
  const said = protocols.find((protocol) => protocol.startsWith(MAIL_PROTOCOL))?.slice(MAIL_PROTOCOL.length);
  return said === undefined || said === 'wakes' ? 'wakes' : said === 'next_turn' ? 'next_turn' : 'polls';
}
