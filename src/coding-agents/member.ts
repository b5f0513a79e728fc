import type { Agent } from '../agent/agent.js';
import type { Message } from '../agent/message.js';
import type { Mail } from '../mail/mail.js';
import type { AgentRegistry } from '../mesh/registry.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Leases } from './leases/leases.js';
import { fenced, oneLine, type Provenance } from './mailbox/fence.js';
import type { LetterLog } from './mailbox/letter-log.js';
import type { LoopGuard } from './mailbox/loop-guard.js';
import type { Answer, MemberContext, MeshCall, MeshTool, Presented, SeesMail } from './mailbox/member-context.js';
import type { MemberMail, OpenLetter } from './mailbox/member-mail.js';
import { MemberTasks } from './mailbox/member-tasks.js';
import { ANSWER_BYTES, partOf, roomFor } from './mailbox/message-parts.js';
import type { PeerNames } from './mailbox/peer-names.js';
import { Repeats } from './mailbox/repeats.js';
import { mailProtocol } from './mailbox/sees-mail.js';
import { callTool } from './tools/call-tool.js';
import { inboxTool } from './tools/inbox-tool.js';
import { leaseTool } from './tools/lease-tool.js';
import { lookupTool } from './tools/lookup-tool.js';
import { peersTool } from './tools/peers-tool.js';
import { sendTool } from './tools/send-tool.js';
import { stateTool } from './tools/state-tool.js';
import { taskTool } from './tools/task-tool.js';

export interface MemberComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  mail: Mail;
  names: PeerNames;
  log: LetterLog;
  loops: LoopGuard;
  leases: Leases;
  relationOf: (address: string) => Provenance['relation'];
  acquaint: (address: string) => Promise<void>;
}

/** One call as it comes from the member's process. */
export interface MemberCall extends MeshCall {
  /** Messages that the client had been given when it made this call. */
  readonly seen: readonly string[];
}

const TOOLS: Readonly<Record<string, MeshTool>> = {
  mesh_peers: peersTool,
  mesh_send: sendTool,
  mesh_inbox: inboxTool,
  mesh_lookup: lookupTool,
  mesh_task: taskTool,
  mesh_state: stateTool,
  mesh_call: callTool,
  mesh_lease: leaseTool,
};

/** Unread messages that one result tells of. */
const ANNOUNCED = 3;
const MARK_BYTES = 6;
/** What an answer needs besides a message's words, and the room that one must find in it to be begun. */
const HEADER_BYTES = 250;
const LEAST_ROOM = 1_000;

/** A coding agent that is here now: its name, its mailbox and its tools, for as long as its process lives. */
export class Member implements MemberContext {
  readonly name: string;
  readonly agent: Agent;
  readonly box: MemberMail;
  readonly runtime: Runtime;
  readonly registry: AgentRegistry;
  readonly mail: Mail;
  readonly names: PeerNames;
  readonly log: LetterLog;
  readonly loops: LoopGuard;
  readonly tasks: MemberTasks;
  readonly leases: Leases;
  readonly #components: MemberComponents;
  readonly #repeats: Repeats;
  #seesMail: SeesMail = 'polls';

  constructor(components: MemberComponents, agent: Agent, box: MemberMail) {
    this.#components = components;
    this.name = agent.id;
    this.agent = agent;
    this.box = box;
    const { runtime, registry, mail, names, log, loops, leases } = components;
    this.runtime = runtime;
    this.registry = registry;
    this.mail = mail;
    this.names = names;
    this.log = log;
    this.loops = loops;
    this.leases = leases;
    this.#repeats = new Repeats(runtime);
    this.tasks = new MemberTasks(agent);
    // What comes without waiting for anybody is kept all the same: its reader looks when it looks.
    agent
      .onMessage((message) => this.#keep(message))
      .onUnread(({ messageId, reason }) => this.#late(messageId, reason));
  }

  get seesMail(): SeesMail {
    return this.#seesMail;
  }

  /** Says when this member sees its mail; only what was tried may say `wakes`. */
  set seesMail(seesMail: SeesMail) {
    if (this.#seesMail === seesMail) return;
    this.#seesMail = seesMail;
    this.agent.update({ protocols: [mailProtocol(seesMail)] });
  }

  /** Runs a tool. The result ends with what the member has not heard of yet. */
  async call(name: string, args: unknown, call: MemberCall): Promise<Answer> {
    await this.box.prove(call.seen);
    const tool = Object.hasOwn(TOOLS, name) ? TOOLS[name]! : undefined;
    if (!tool) throw new EclipticError('TOOL_NOT_FOUND', `there is no tool "${name}"`);
    const run = () => tool(this, args, call);
    try {
      const answer = await (isOnce(name, args) ? this.#repeats.once(name, args, run) : run());
      if (call.signal.aborted) {
        // The client reads no answer: what it would have brought stays unread and untold.
        this.box.unshow(call.number);
        return answer;
      }
      const news = [...(await this.announce()), ...this.tasks.announce((address) => this.names.display(address))];
      return news.length === 0 ? answer : { ...answer, text: [answer.text, ...news].join('\n') };
    } catch (error) {
      // What it would have brought was not brought.
      this.box.unshow(call.number);
      throw error;
    }
  }

  /** Mail that this session has not heard of, in a few lines; each is told of once. */
  async announce(): Promise<string[]> {
    const fresh = (await this.box.unread(ANNOUNCED * 10)).filter(({ announced }) => !announced);
    if (fresh.length === 0) return [];
    for (const open of fresh) open.announced = true;
    const lines = fresh.slice(0, ANNOUNCED).map(({ held, from, letter }) => {
      const needs = letter.needs === 'none' ? '' : ` needs ${letter.needs}`;
      return `${held.envelope.id} from ${this.names.display(from)}${needs}`;
    });
    return [`${fresh.length} unread: ${lines.join('; ')}; call mesh_inbox.`];
  }

  async present(letters: readonly OpenLetter[], call: number): Promise<Presented> {
    const texts: string[] = [];
    const shown: string[] = [];
    let room = ANSWER_BYTES;
    for (const open of letters) {
      const { text } = open.letter;
      const from = open.shownTo;
      const part = partOf(text, from, room);
      const ends = part.to === text.length;
      // The next one begins in an answer where there is room for more than a few words of it.
      if (texts.length > 0 && (room < LEAST_ROOM || (from === 0 && !ends))) break;
      this.box.showPart(open, part.to, call);
      if (ends) {
        this.box.show([open], call);
        await this.#note(open);
        shown.push(open.held.envelope.id);
      }
      texts.push(this.#fenced(open, part.text, partNote(from, part.to, text.length)));
      if (!ends) break;
      room -= roomFor(part.text) + HEADER_BYTES;
    }
    return { texts, shown };
  }

  mark(): string {
    return Buffer.from(this.runtime.bytes(MARK_BYTES)).toString('hex');
  }

  acquaint(address: string): Promise<void> {
    return this.#components.acquaint(address);
  }

  describe(summary: string): void {
    this.agent.update({ description: oneLine(summary, 120) });
  }

  /** The process is gone: the name is away, its mail waits. */
  leave(): void {
    this.box.endSession();
    this.agent.leave();
  }

  async #note({ held, from, letter }: OpenLetter): Promise<void> {
    const { id, correlationId } = held.envelope;
    const { needs, hops, text } = letter;
    const row = { member: this.name, id, peer: from, sent: 0, thread: correlationId ?? null };
    await this.log.note({ ...row, needs, hops, text });
  }

  #fenced({ held, from, letter, origin, redelivered }: OpenLetter, text: string, note: string): string {
    const { needs, hops } = letter;
    const about = { id: held.envelope.id, from: this.names.display(from), key: this.names.keyOf(from) };
    const relation = this.#components.relationOf(from);
    return fenced({ ...about, relation, origin, needs, hops, redelivered }, text, this.mark()) + note;
  }

  async #keep({ envelope }: Message): Promise<void> {
    await this.mail.keep(envelope, this.registry.entry(this.name)!);
  }

  /** A message of this member that was to be read by now, and is not: told by mail, which outlives this session. */
  #late(id: string, reason: string): void {
    const text = `Your message ${id}: ${reason}. mesh_lookup tells more; do not resend it.`;
    this.agent
      .send(this.name, { text, mesh: { needs: 'none', hops: 0 } }, { durable: true })
      .catch((error: unknown) => this.runtime.logger.error({ member: this.name, err: error }, 'a notice was not kept'));
  }
}

/** Says of a part which it is. */
function partNote(from: number, to: number, of: number): string {
  if (from === 0 && to === of) return '';
  const rest = to < of ? '; the rest comes with the next mesh_inbox' : '; this is the end of it';
  return `\n(characters ${from + 1} to ${to} of ${of}${rest})`;
}

/** Would it be done twice if it was asked twice? */
function isOnce(tool: string, args: unknown): boolean {
  return tool === 'mesh_send' || (tool === 'mesh_task' && (args as { action?: unknown } | null)?.action === 'offer');
}
