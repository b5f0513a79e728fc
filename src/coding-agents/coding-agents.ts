import type { Agent } from '../agent/agent.js';
import type { AgentInit } from '../agent/agent-init.js';
import type { Mail } from '../mail/mail.js';
import { oneLine } from '../mcp/fence.js';
import type { A2AObservability } from '../mesh/observability.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { AgentTier } from '../mesh/schemas.js';
import type { Identity } from '../network/membership/identity.js';
import type { Network } from '../network/peers/network.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Registers } from '../store/shared/registers.js';
import type { Store } from '../store/store.js';
import type { Git } from '../system/git/git.js';
import { descriptionIn } from '../work/proposals/proposal-records.js';
import { proposals } from '../work/proposals/tables.js';
import { Leases } from './leases/leases.js';
import { type Identify, plainFolder } from './leases/repository.js';
import { Acquaintances } from './mailbox/acquaintances.js';
import { HumanSeal, OWNER } from './mailbox/letter.js';
import { LetterLog } from './mailbox/letter-log.js';
import { LoopGuard, type LoopLimits } from './mailbox/loop-guard.js';
import { Member, mailProtocol } from './mailbox/member.js';
import { MemberMail, type OpenLetter, required } from './mailbox/member-mail.js';
import { checkedName, nameFor, numbered, PeerNames } from './mailbox/names.js';
import { members as memberTable } from './mailbox/tables.js';
import { EditGuard } from './radar/edit-guard.js';
import { Radar, type WorkPlaces } from './radar/radar.js';

export interface CodingAgentsComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  observability: A2AObservability;
  network: Network | undefined;
  mail: Mail;
  store: Store;
  /** Where leases are decided if the mesh has a broker. */
  registers?: Registers | undefined;
  /** The node's key, which vouches for the owner's. */
  identity: Identity;
  /** The owner's key, which no agent can reach; created at first use. */
  person: () => Identity;
  agent: (init: AgentInit) => Agent;
  /** The agent under whose name the owner writes. */
  owner: () => Agent;
}

export interface CodingAgentsInit extends LoopLimits {
  /** Finds the repository of a folder. Default: each folder is its own repository. */
  identify?: Identify;
  /** Watches the folders in which agents work, these and the checkouts of members. */
  radar?: { readonly git: Git; readonly work: WorkPlaces };
}

/** The self-description of a joining process. */
export interface AttachInit {
  /** The name it asks for. Default: one derived from its client and checkout. */
  readonly as?: string | undefined;
  readonly client: string;
  readonly checkout: string;
  readonly capabilities?: readonly string[] | undefined;
  readonly tier?: AgentTier | undefined;
  readonly sandbox?: string | undefined;
  /** Its process id and those of its ancestors, the nearest first. */
  readonly ancestors?: readonly number[] | undefined;
}

/** A message held until the owner lets its sender in. */
export interface HeldRow {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly reason: string;
  readonly text: string;
}

export interface TaskLine {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly state: string;
  readonly title: string;
}

/** Processes that may share one wanted name, and mailboxes on one node. */
const MAX_NAMESAKES = 32;
const MAX_MEMBERS = 1_000;
const TITLE_CHARS = 60;

/** Makes coding agents members of the mesh: each has a name, and a mailbox that outlives its process. */
export class CodingAgents {
  readonly names: PeerNames;
  readonly leases: Leases;
  /** Absent where nothing is watched. */
  readonly radar: Radar | undefined;
  readonly editGuard: EditGuard | undefined;
  readonly #components: CodingAgentsComponents;
  readonly #acquaintances: Acquaintances;
  readonly #log: LetterLog;
  readonly #loops: LoopGuard;
  #seal: HumanSeal | undefined;
  /** By name, including members that are away. */
  readonly #boxes = new Map<string, MemberMail>();
  readonly #members = new Map<string, Member>();

  private constructor(
    components: CodingAgentsComponents,
    acquaintances: Acquaintances,
    leases: Leases,
    { radar, ...limits }: CodingAgentsInit,
  ) {
    this.#components = components;
    this.#acquaintances = acquaintances;
    this.leases = leases;
    this.names = new PeerNames(components);
    this.#log = new LetterLog(components.runtime, components.store);
    this.#loops = new LoopGuard(components.runtime, limits);
    const { network, registry } = components;
    const device = registry.nodeKey ?? '';
    const reachable = (node: string) => network?.peers.reachable(node) === true;
    const display = (address: string) => this.names.display(address);
    this.radar = radar && new Radar({ ...components, ...radar, leases, device, reachable, display });
    this.editGuard = this.radar && new EditGuard({ runtime: components.runtime, leases, radar: this.radar });
  }

  static async open(components: CodingAgentsComponents, init: CodingAgentsInit = {}): Promise<CodingAgents> {
    const { runtime, store, network, mail, registers } = components;
    const nodeKey = components.registry.nodeKey ?? '';
    const { identify = async (folder) => plainFolder(nodeKey, folder) } = init;
    const leases = await Leases.open({ runtime, store, network, nodeKey, identify, mail, registers });
    const acquaintances = await Acquaintances.open(runtime, store, network);
    const codingAgents = new CodingAgents(components, acquaintances, leases, init);
    for (const { name } of await store.read(memberTable)) codingAgents.#box(name);
    codingAgents.#box(OWNER).onArrival = (open) => void codingAgents.#logForOwner(open);
    await codingAgents.#log.retain();
    return codingAgents;
  }

  get present(): readonly Member[] {
    return [...this.#members.values()];
  }

  get mailboxes(): ReadonlyMap<string, MemberMail> {
    return new Map([...this.#boxes].filter(([name]) => name !== OWNER));
  }

  /** Open tasks of mailboxes here, from the store: includes tasks between agents that are away. */
  async storedTasks(): Promise<TaskLine[]> {
    const rows = await this.#components.store.read(proposals, { where: { open: 1 } });
    const lines = new Map<string, TaskLine>();
    for (const row of rows.filter(({ agent }) => this.#boxes.has(agent))) {
      const { id, agent, side, peer, status } = row;
      const [from, to] = side === 'sent' ? [agent, peer] : [peer, agent];
      const names = { from: this.names.display(from), to: to === '' ? '?' : this.names.display(to) };
      lines.set(id, { id, ...names, state: status, title: oneLine(descriptionIn(row), TITLE_CHARS) });
    }
    return [...lines.values()];
  }

  forOwner(limit: number): Promise<OpenLetter[]> {
    return this.#box(OWNER).open(limit);
  }

  /** The text of a message to or from a member or the owner. */
  async textOf(member: string, id: string): Promise<string | undefined> {
    return (await this.#log.find(member, id))?.text;
  }

  /** Records that the owner was shown these messages. */
  showOwner(ids: readonly string[]): void {
    const box = this.#box(OWNER);
    box.show(
      ids.flatMap((id) => box.find(id) ?? []),
      0,
    );
  }

  /** The address of the writer of an open message to the owner. */
  async writerToOwner(id: string): Promise<string> {
    const box = this.#box(OWNER);
    await box.load();
    return requiredByOwner(box, id).from;
  }

  /** Messages whose text, peer or id contains all words, from and to members and the owner, the latest first. */
  async mentioning(query: string, limit: number): Promise<readonly { readonly id: string; readonly at: number }[]> {
    const found = await Promise.all([...this.#boxes.keys()].map((name) => this.#log.search(name, query, limit)));
    const unique = new Map(found.flat().map((row) => [row.id, row]));
    return [...unique.values()].sort((a, b) => b.at - a.at).slice(0, limit);
  }

  /** Closes mail to the owner. A sender that waits for an answer is told that none comes. */
  async closeForOwner(ids: readonly string[]): Promise<void> {
    const box = this.#box(OWNER);
    await box.load();
    for (const open of ids.map((id) => requiredByOwner(box, id))) {
      await box.end(open, { state: 'done' });
      const { letter, held, from } = open;
      if (letter.needs === 'none') continue;
      const { id, correlationId: thread } = held.envelope;
      const text = `The owner has closed your message ${id} without an answer: it is dealt with. Do not wait for a reply.`;
      const payload = { text, mesh: { needs: 'none', hops: 0, inReplyTo: id } };
      await this.#components.owner().send(from, payload, { type: 'notification', thread, durable: true });
    }
  }

  /** Makes a process a member. If its name is in use it gets a numbered name with a mailbox of its own. */
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
      await store.write([memberTable.put(row)]);
      const { names, leases, radar } = this;
      const member = new Member(
        {
          ...{ runtime, registry, mail, names, leases, radar, log: this.#log, loops: this.#loops },
          relationOf: (address) => this.#acquaintances.relationOf(address),
          acquaint: async (address) => {
            if (address === OWNER) this.#components.owner();
            else await this.#acquaintances.letIn(address);
          },
        },
        agent,
        this.#box(name),
        init.checkout,
      );
      this.#members.set(name, member);
      leases.joined(name, init);
      return member;
    } catch (error) {
      agent.leave();
      throw error;
    }
  }

  detach(member: Member): void {
    if (this.#members.get(member.name) !== member) return;
    this.#members.delete(member.name);
    this.leases.left(member.name);
    member.leave();
  }

  /** Sends the owner's message, perhaps in answer to another. Resolves with the id of its receipt. */
  async tell(to: string, text: string, replyTo?: string): Promise<{ id: string; to: string; thread: string }> {
    const { runtime, registry } = this.#components;
    const owner = this.#components.owner();
    const address = this.names.resolve(to, owner.id);
    const box = this.#box(OWNER);
    await box.load();
    const answers = replyTo === undefined ? undefined : requiredByOwner(box, replyTo);
    if (answers && answers.from !== address) {
      const writer = this.names.display(answers.from);
      throw new EclipticError('USAGE', `message ${replyTo} is from ${writer}, not from ${to}; nothing was sent`);
    }
    const nodeKey = registry.nodeKey!;
    const full = address.includes('@') ? address : `${address}@${nodeKey}`;
    this.#seal ??= new HumanSeal(this.#components.identity, this.#components.person());
    const human = this.#seal.seal({ from: `${OWNER}@${nodeKey}`, to: full, text, at: runtime.now() });
    const payload = { text, mesh: { needs: 'none', hops: 0, human, ...(answers && { inReplyTo: replyTo }) } };
    const thread = answers?.held.envelope.correlationId ?? runtime.id();
    const shown = { to: this.names.display(address), thread };
    const answer = answers && owner.answerTo(answers.held.envelope, payload);
    const type = answers ? 'response' : 'notification';
    const id = answer?.id ?? (await owner.send(address, payload, { type, thread, durable: true })).messageId!;
    if (answers) await box.end(answers, { state: 'replied', ...(answer && { answer }) });
    await this.#log.noteSent({ member: OWNER, id, peer: address, thread, needs: 'none', hops: 0, text });
    return { id, ...shown };
  }

  async held(): Promise<HeldRow[]> {
    const rows = [...this.#boxes].map(async ([to, box]) =>
      (await box.heldBack()).map(({ open, reason }) => {
        return { id: open.held.envelope.id, from: open.from, to, reason, text: open.letter.text };
      }),
    );
    return (await Promise.all(rows)).flat();
  }

  /** Lets the sender's held and future mail in. */
  async letIn(id: string): Promise<{ from: string }> {
    const { from } = await this.#findHeld(id);
    await this.#acquaintances.letIn(from);
    for (const box of this.#boxes.values()) await box.reconsider();
    return { from };
  }

  /** Declines a held message; its sender is told. */
  async turnAway(id: string): Promise<{ from: string }> {
    const { from, to } = await this.#findHeld(id);
    const box = this.#boxes.get(to)!;
    await box.end(box.find(id)!, { state: 'declined', reason: 'it was not let in' });
    return { from };
  }

  close(): void {
    this.radar?.close();
    this.leases.close();
    for (const member of this.#members.values()) member.leave();
    this.#members.clear();
    for (const box of this.#boxes.values()) box.close();
    this.#boxes.clear();
  }

  async #logForOwner(open: OpenLetter): Promise<void> {
    await this.#log.note(OWNER, open).catch((err: unknown) => {
      const { id } = open.held.envelope;
      this.#components.runtime.logger.error({ message: id, err }, 'message to the owner not logged');
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
      const whyHeld = (sender: string) => this.#acquaintances.whyHeld(sender);
      const whyTooFar = (hops: number) => this.#loops.whyTooFar(hops);
      box = new MemberMail({ runtime, mail, nodeKey: registry.nodeKey ?? '', whyHeld, whyTooFar }, name);
      this.#boxes.set(name, box);
    }
    return box;
  }

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

function requiredByOwner(box: MemberMail, id: string): OpenLetter {
  return required(box, id, 'ecliptic inbox');
}
