import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { AttachInit, CodingAgents, CodingAgentsInit } from '../src/coding-agents/coding-agents.js';
import type { Member } from '../src/coding-agents/mailbox/member.js';
import { runTool } from '../src/coding-agents/tools/tools.js';
import type { EclipticNode, NodeInit } from '../src/node/compose.js';
import { MemoryStore } from '../src/store/memory-store.js';
import type { NetworkedNode, Nodes } from './nodes-fixture.js';

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-codingAgents-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A node with mailboxes, on the fixture's clock. */
export async function startCodingAgents(
  nodes: Nodes,
  init: Omit<NodeInit, 'runtime'> = {},
  codingAgentsInit: CodingAgentsInit = {},
): Promise<{ node: NetworkedNode; codingAgents: CodingAgents }> {
  const node = await nodes.settled(nodes.start({ store: new MemoryStore(), ...init }));
  return { node, codingAgents: await nodes.settled(node.openCodingAgents(temporaryFolder(), codingAgentsInit)) };
}

/** A scripted client: as with a real one, shown messages count as received with its next call. */
export class Client {
  readonly member: Member;
  readonly #codingAgents: CodingAgents;
  readonly #nodes: Nodes;
  #number = 0;
  #seen: string[] = [];

  private constructor(nodes: Nodes, codingAgents: CodingAgents, member: Member) {
    this.#nodes = nodes;
    this.#codingAgents = codingAgents;
    this.member = member;
  }

  static async join(
    nodes: Nodes,
    codingAgents: CodingAgents,
    as: string,
    init: Partial<AttachInit> = {},
  ): Promise<Client> {
    const about = { as, client: 'scripted', checkout: '/work', ...init };
    return new Client(nodes, codingAgents, await nodes.settled(codingAgents.attach(about)));
  }

  get name(): string {
    return this.member.name;
  }

  /** Calls a tool, and lets time pass until it has answered. */
  call(tool: string, args: Record<string, unknown> = {}, signal?: AbortSignal): Promise<string> {
    return this.#nodes.settled(this.begin(tool, args, signal));
  }

  /** Calls a tool, and returns its text. */
  async begin(
    tool: string,
    args: Record<string, unknown> = {},
    signal: AbortSignal = new AbortController().signal,
  ): Promise<string> {
    const seen = this.#seen;
    this.#seen = [];
    const { text, shown = [] } = await runTool(this.member, tool, args, { number: ++this.#number, seen, signal });
    // A client that gave up reads no answer.
    if (!signal.aborted) this.#seen.push(...shown);
    return text;
  }

  send(to: string, text: string, more: Record<string, unknown> = {}): Promise<string> {
    return this.call('mesh_send', { to, text, ...more });
  }

  inbox(args: Record<string, unknown> = {}): Promise<string> {
    return this.call('mesh_inbox', args);
  }

  leave(): void {
    this.#codingAgents.detach(this.member);
  }
}

/** The ids of the messages that a text shows, in order. */
export function idsIn(text: string): string[] {
  return [...text.matchAll(/^([0-9A-Z]{26}) (?:from|to) /gm)].map(([, id]) => id!);
}

/** The text between the marks of each message in a result. */
export function bodiesIn(text: string): string[] {
  return [...text.matchAll(/^<<([0-9a-f]{12})\n([\s\S]*?)\n\1>>$/gm)].map(([, , body]) => body!);
}

export async function stateOf(nodes: Nodes, node: EclipticNode, id: string): Promise<string> {
  return (await nodes.settled(node.mail!.receipt(id))).state;
}
