import type { Agent } from '../agent/agent.js';
import type { AgentInit } from '../agent/agent-init.js';
import type { Mail } from '../mail/mail.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { AgentTier } from '../mesh/schemas.js';
import type { Identity } from '../network/membership/identity.js';
import type { Network } from '../network/peers/network.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store } from '../store/store.js';
import { descriptionIn } from '../work/proposals/shown-proposal.js';
import { Leases } from './leases/leases.js';
import { type Identify, plainFolder } from './leases/repository.js';
import { oneLine } from './mailbox/fence.js';
import { HumanSeal, OWNER } from './mailbox/human.js';
import { LetterLog } from './mailbox/letter-log.js';
import { LoopGuard, type LoopLimits } from './mailbox/loop-guard.js';
import { MemberMail, type OpenLetter, required } from './mailbox/member-mail.js';
import { PeerNames } from './mailbox/peer-names.js';
import { mailProtocol } from './mailbox/sees-mail.js';
import { Strangers } from './mailbox/strangers.js';
import { Member } from './member.js';
import { checkedName, nameFor, numbered } from './names.js';

export interface CodingAgentsComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  network: Network | undefined;
  mail: Mail;
  store: Store;
  /** The node's key, which vouches for its owner's. */
  identity: Identity;
  /** The owner's key, which no agent can reach; made when it is first needed. */
  person: () => Identity;
  /** Brings an agent to life on this node. */
  agent: (init: AgentInit) => Agent;
  /** The agent under whose name the owner speaks. */
  owner: () => Agent;
}

export interface CodingAgentsInit extends LoopLimits {
  /** Finds out which repository a folder belongs to. Default: each folder is one of its own. */
  identify?: Identify;
}

/** A process that wants to be a member. */
export interface AttachInit {
  /** The name it asks for. Without one it gets one from its client and checkout. */
  readonly as?: string | undefined;
  readonly client: string;
  readonly checkout: string;
  readonly capabilities?: readonly string[] | undefined;
  readonly tier?: AgentTier | undefined;
  readonly sandbox?: string | undefined;
  /** Its process and those that it came from, the nearest first. */
  readonly ancestors?: readonly number[] | undefined;
}

/** A message that waits for the owner's word. */
export interface HeldRow {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly reason: string;
  readonly text: string;
}

/** A task between agents, as one who watches sees it. */
export interface TaskLine {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly state: string;
  readonly title: string;
}

/** Processes at once that ask for one name, and names that are remembered. */
const MAX_NAMESAKES = 32;
const MAX_MEMBERS = 1_000;
const TITLE_CHARS = 60;

/** Where coding agents become members of the mesh: each under its name, with a mailbox that outlives its process. */
export class CodingAgents {
  readonly #components: CodingAgentsComponents;
  readonly #strangers: Strangers;
  /** What agents are called here. */
  readonly names: PeerNames;
  readonly #log: LetterLog;
  readonly #loops: LoopGuard;
  #seal: HumanSeal | undefined;
  /** Which files they have reserved. */
  readonly leases: Leases;
  /** By name, also of those that are away. */
  readonly #boxes = new Map<string, MemberMail>();
  readonly #members = new Map<string, Member>();

  private constructor(
    components: CodingAgentsComponents,
    strangers: Strangers,
    leases: Leases,
    init: CodingAgentsInit,
  ) {
    this.#components = components;
    this.#strangers = strangers;
    this.leases = leases;
    this.names = new PeerNames(components);
    this.#log = new LetterLog(components.runtime, components.store);
    this.#loops = new LoopGuard(components.runtime, init);
  }

  static async open(components: CodingAgentsComponents, init: CodingAgentsInit = {}): Promise<CodingAgents> {
    const { runtime, store, network } = components;
    const nodeKey = components.registry.nodeKey ?? '';
    const { identify = async (folder) => plainFolder(nodeKey, folder) } = init;
    const leases = await Leases.open({ runtime, store, network, nodeKey, identify, mail: components.mail });
    const codingAgents = new CodingAgents(components, await Strangers.open(runtime, store, network), leases, init);
    for (const { name } of await store.read({ from: 'members' })) codingAgents.#box(name);
    const owners = codingAgents.#box(OWNER);
    owners.onArrival = (open) => void codingAgents.#noteForOwner(open);
    await codingAgents.#log.retain();
    return codingAgents;
  }

  /** Who is here now. */
  get present(): readonly Member[] {
    return [...this.#members.values()];
  }

  /** The names of coding agents that have a mailbox. */
  get mailboxes(): ReadonlyMap<string, MemberMail> {
    return new Map([...this.#boxes].filter(([name]) => name !== OWNER));
  }

  /** Open tasks of mailboxes here, as they are on disk: also those between agents that are away. */
  async storedTasks(): Promise<TaskLine[]> {
    const rows = await this.#components.store.read({ from: 'proposals', where: { open: 1 } });
    const own = rows.filter(({ agent }) => this.#boxes.has(agent));
    const lines = new Map(
      own.map((row) => {
        const { id, agent, side, peer, status } = row;
        const [from, to] = side === 'sent' ? [agent, peer] : [peer, agent];
        const [who, whom] = [this.names.display(from), to === '' ? '?' : this.names.display(to)];
        return [
          id,
          { id, from: who, to: whom, state: status, title: oneLine(descriptionIn(row), TITLE_CHARS) },
        ] as const;
      }),
    );
    return [...lines.values()];
  }

  /** Messages to the person that wait for an answer, or to be closed; oldest first. */
  forOwner(limit: number): Promise<OpenLetter[]> {
    return this.#box(OWNER).open(limit);
  }

  /** The text of a message to the person, or of one that they wrote. */
  async ownerWords(id: string): Promise<string | undefined> {
    return (await this.#log.find(OWNER, id))?.text;
  }

  /** The person was shown these. */
  showOwner(ids: readonly string[]): void {
    const box = this.#box(OWNER);
    box.show(
      ids.flatMap((id) => box.find(id) ?? []),
      0,
    );
  }

  /** The person is through with these. */
  async closeForOwner(ids: readonly string[]): Promise<void> {
    const box = this.#box(OWNER);
    await box.load();
    for (const open of ids.map((id) => required(box, id, 'ecliptic inbox --as operator'))) {
      await box.end(open, { state: 'done' });
    }
  }

  /** Makes that process a member. One whose name is taken gets a name of its own, with a mailbox of its own. */
  async attach(init: AttachInit): Promise<Member> {
    const { runtime, registry, mail, store } = this.#components;
    const wanted = init.as === undefined ? nameFor(init.client, init.checkout) : checkedName(init.as);
    const name = this.#freeName(wanted);
    const agent = this.#components.agent({
      id: name,
      description: '',
      tier: init.tier ?? 3,
      capabilities: init.capabilities ?? [],
      protocols: [mailProtocol('polls')],
      fetchesMail: true,
      ...(init.sandbox !== undefined && { sandbox: init.sandbox }),
    });
    try {
      const row = { name, client: init.client, checkout: init.checkout, seenAt: runtime.now() };
      await store.write([{ put: 'members', row }]);
      const { names, log, loops } = { names: this.names, log: this.#log, loops: this.#loops };
      const relationOf = (address: string) => this.#strangers.relationOf(address);
      const acquaint = async (address: string) => {
        if (address === OWNER) this.#components.owner();
        else await this.#strangers.letIn(address);
      };
      const { leases } = this;
      const parts = { runtime, registry, mail, names, log, loops, leases, relationOf, acquaint };
      const member = new Member(parts, agent, this.#box(name));
      this.#members.set(name, member);
      leases.joined(name, init);
      return member;
    } catch (error) {
      agent.leave();
      throw error;
    }
  }

  /** The process of that member is gone. */
  detach(member: Member): void {
    if (this.#members.get(member.name) !== member) return;
    this.#members.delete(member.name);
    this.leases.left(member.name);
    member.leave();
  }

  /** Speaks as the owner, perhaps in answer to a message. Resolves with the id that the receipt is asked for by. */
  async tell(to: string, text: string, replyTo?: string): Promise<{ id: string; to: string; thread: string }> {
    const { runtime, registry } = this.#components;
    const owner = this.#components.owner();
    const address = this.names.resolve(to, owner.id);
    const box = this.#box(OWNER);
    await box.load();
    const answers = replyTo === undefined ? undefined : required(box, replyTo, 'ecliptic inbox --as operator');
    if (answers && answers.from !== address) {
      const writer = this.names.display(answers.from);
      throw new EclipticError('USAGE', `message ${replyTo} is from ${writer}, not from ${to}; nothing was sent`);
    }
    const nodeKey = registry.nodeKey!;
    const full = address.includes('@') ? address : `${address}@${nodeKey}`;
    const at = runtime.now();
    this.#seal ??= new HumanSeal(this.#components.identity, this.#components.person());
    const human = this.#seal.seal({ from: `${OWNER}@${nodeKey}`, to: full, text, at });
    const payload = { text, mesh: { needs: 'none', hops: 0, human, ...(answers && { inReplyTo: replyTo }) } };
    const thread = answers?.held.envelope.correlationId ?? runtime.id();
    const told = { to: this.names.display(address), thread };
    const answer = answers && owner.answerTo(answers.held.envelope, payload);
    const id = answer?.id ?? (await this.#sendAsOwner(owner, address, payload, { thread, isAnswer: !!answers }));
    if (answers) await box.end(answers, { state: 'replied', ...(answer && { answer }) });
    await this.#log.note({ member: OWNER, id, peer: address, sent: 1, thread, needs: 'none', hops: 0, text });
    return { id, ...told };
  }

  /** What waits for the owner's word. */
  async held(): Promise<HeldRow[]> {
    const rows = [...this.#boxes].map(async ([to, box]) =>
      (await box.heldBack()).map(({ open, reason }) => ({
        id: open.held.envelope.id,
        from: open.from,
        to,
        reason,
        text: open.letter.text,
      })),
    );
    return (await Promise.all(rows)).flat();
  }

  /** Lets the sender's mail in, now and from now on. */
  async letIn(id: string): Promise<{ from: string }> {
    const { from } = await this.#findHeld(id);
    await this.#strangers.letIn(from);
    for (const box of this.#boxes.values()) await box.reconsider();
    return { from };
  }

  /** Sends a held message away; its sender is told. */
  async turnAway(id: string): Promise<{ from: string }> {
    const { from, to } = await this.#findHeld(id);
    const box = this.#boxes.get(to)!;
    await box.end(box.find(id)!, { state: 'declined', reason: 'it was not let in' });
    return { from };
  }

  close(): void {
    this.leases.close();
    for (const member of this.#members.values()) member.leave();
    this.#members.clear();
    for (const box of this.#boxes.values()) box.close();
    this.#boxes.clear();
  }

  async #sendAsOwner(
    owner: Agent,
    to: string,
    payload: object,
    { thread, isAnswer }: { thread: string; isAnswer: boolean },
  ): Promise<string> {
    const type = isAnswer ? 'response' : 'notification';
    const { messageId } = await owner.send(to, payload, { type, thread, durable: true });
    return messageId!;
  }

  async #noteForOwner({ held, from, letter }: OpenLetter): Promise<void> {
    const { id, correlationId } = held.envelope;
    const { needs, hops, text } = letter;
    const row = { member: OWNER, id, peer: from, sent: 0, thread: correlationId ?? null, needs, hops, text };
    await this.#log.note(row).catch((error: unknown) => {
      this.#components.runtime.logger.error({ message: id, err: error }, 'message to the owner not logged');
    });
  }

  async #findHeld(id: string): Promise<HeldRow> {
    const found = (await this.held()).find((row) => row.id === id || row.from === id);
    if (found) return found;
    throw new EclipticError('APPROVAL_NOT_FOUND', `no held message has the id "${id}"; see: ecliptic held`, { id });
  }

  #box(name: string): MemberMail {
    let box = this.#boxes.get(name);
    if (!box) {
      const { runtime, mail, registry } = this.#components;
      const whyHeld = (sender: string) => this.#strangers.whyHeld(sender);
      const whyTooFar = (hops: number) => this.#loops.whyTooFar(hops);
      box = new MemberMail({ runtime, mail, nodeKey: registry.nodeKey ?? '', whyHeld, whyTooFar }, name);
      this.#boxes.set(name, box);
    }
    return box;
  }

  /** The name, or the first of its namesakes that nobody uses. */
  #freeName(wanted: string): string {
    const { registry } = this.#components;
    for (let n = 1; n <= MAX_NAMESAKES; n++) {
      const name = numbered(wanted, n);
      if (registry.entry(name)) continue;
      if (!this.#boxes.has(name) && this.#boxes.size >= MAX_MEMBERS) break;
      return name;
    }
    throw new EclipticError('QUEUE_FULL', `too many agents are called "${wanted}" already; choose another name`);
  }
}
