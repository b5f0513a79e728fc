import { EclipticError } from '../../runtime/errors.js';
import type { Approval } from '../../system/approvals/approval-queue.js';
import { type Definition, DefinitionSchema, keyOf } from '../definitions.js';
import type { Waiting } from './logins.js';
import { DEFINITION_APPROVAL, type Fresh, fingerprint, slotOf } from './pins.js';
import { Upstream, type UpstreamComponents, type UpstreamInit, type UpstreamStatus } from './upstream.js';

/** A configured server that is disabled, or whose configuration is faulty. */
export interface IdleServer {
  readonly name: string;
  readonly agent: string;
  /** The fault of the configuration; undefined for a disabled server. */
  readonly fault?: EclipticError;
}

/** One definition of an upstream server, for `ecliptic tools`. */
export interface PinRow {
  readonly server: string;
  readonly kind: Definition['kind'];
  readonly name: string;
  readonly state: 'pinned' | 'quarantined';
  /** When it was pinned, or first seen in its present form. */
  readonly at: number;
  readonly hash: string;
  /** The id of its approval request. */
  readonly id: string | null;
  readonly summary: string | null;
  readonly diff: readonly string[];
}

/** The upstream MCP servers of a node. Each starts and fails independently. */
export class Upstreams {
  readonly #components: UpstreamComponents;
  readonly #upstreams = new Map<string, Upstream>();
  readonly #idle: IdleServer[] = [];
  readonly #stopListening: readonly (() => void)[];

  constructor(components: UpstreamComponents) {
    this.#components = components;
    const { approvals, credentials } = components;
    this.#stopListening = [
      approvals.onDecision((approval) => this.#decided(approval)),
      credentials.onChange((event) => this.#upstreams.get(event.provider)?.credentialChanged(event)),
    ];
  }

  /** Starts a server in the background. */
  add(init: UpstreamInit): void {
    const upstream = new Upstream(this.#components, init);
    this.#upstreams.set(init.name, upstream);
    upstream.start();
  }

  get(server: string): Upstream {
    return this.#require(server);
  }

  addIdle(server: IdleServer): void {
    this.#idle.push(server);
  }

  get statuses(): UpstreamStatus[] {
    return [...[...this.#upstreams.values()].map(({ status }) => status), ...this.#idle.map(idleStatus)].sort((a, b) =>
      a.name < b.name ? -1 : 1,
    );
  }

  /** The pinned and quarantined definitions of the configured servers. */
  get pins(): PinRow[] {
    const { pins, approvals } = this.#components;
    const rows: PinRow[] = [];
    for (const { name: server } of this.statuses) {
      const items = new Map(approvals.waiting.filter(isDefinition).map((item) => [item.details.hash, item]));
      const suspects = this.#upstreams.get(server)?.suspects ?? [];
      const suspected = new Set(suspects.map(({ slot }) => slot));
      for (const [slot, { hash, definition, at }] of Object.entries(pins.of(server))) {
        if (suspected.has(slot)) continue;
        rows.push({ server, ...named(definition), state: 'pinned', at, hash, id: null, summary: null, diff: [] });
      }
      for (const { definition, hash, summary, diff } of suspects) {
        const item = items.get(hash);
        const at = item?.createdAt ?? 0;
        const id = item?.id ?? null;
        rows.push({ server, ...named(definition), state: 'quarantined', at, hash, id, summary, diff });
      }
    }
    return rows;
  }

  /** Approves all quarantined definitions, or those with this id or `server.name`. Returns the approved ones. */
  approve(which: { all: true } | { subject: string }, by = 'operator'): readonly Approval[] {
    const waiting = this.#components.approvals.waiting.filter(isDefinition);
    const meant =
      'all' in which ? waiting : waiting.filter(({ id, subject }) => id === which.subject || subject === which.subject);
    if (meant.length === 0 && 'subject' in which) {
      const message = `nothing by the name or id "${which.subject}" waits for approval`;
      throw new EclipticError('APPROVAL_NOT_FOUND', message, { subject: which.subject });
    }
    if (meant.length === 0) return [];
    // Pin first: if the process ends between the two steps, the request is withdrawn at the next start.
    this.#pin(meant);
    const decided = this.#components.approvals.decide('allow-once', by, ...meant.map(({ id }) => id));
    this.#reconsider(meant);
    return decided;
  }

  login(server: string): Promise<Waiting> {
    return this.#require(server).login();
  }

  logout(server: string): void {
    this.#require(server).logout();
  }

  async close(): Promise<void> {
    for (const stop of this.#stopListening) stop();
    await Promise.all([...this.#upstreams.values()].map((upstream) => upstream.stop()));
  }

  #require(server: string): Upstream {
    const upstream = this.#upstreams.get(server);
    if (upstream) return upstream;
    throw new EclipticError('SERVER_NOT_FOUND', `no MCP server "${server}" is in use`, { server });
  }

  /** Handles a decision that was made elsewhere. */
  #decided(approval: Approval): void {
    if (!isDefinition(approval) || approval.decision?.verdict === 'deny') return;
    const { server, slot, hash } = approval.details as { server: string; slot: string; hash: string };
    if (this.#components.pins.get(server, slot)?.hash === hash) return;
    this.#pin([approval]);
    this.#reconsider([approval]);
  }

  #pin(approved: readonly Approval[]): void {
    const { pins, runtime } = this.#components;
    const byServer = new Map<string, Fresh[]>();
    for (const { details } of approved) {
      const server = String(details.server);
      const definition = DefinitionSchema.parse(details.definition);
      // Computed again, so that the pin matches the definition whatever the approval's file says.
      const fresh = { definition, slot: slotOf(definition), hash: fingerprint(definition) };
      byServer.set(server, [...(byServer.get(server) ?? []), fresh]);
    }
    for (const [server, fresh] of byServer) pins.pin(server, fresh, runtime.now());
  }

  #reconsider(approved: readonly Approval[]): void {
    const servers = new Set(approved.map(({ details }) => String(details.server)));
    for (const server of servers) this.#upstreams.get(server)?.reconsider();
  }
}

function isDefinition({ kind }: Approval): boolean {
  return kind === DEFINITION_APPROVAL;
}

function named(definition: Definition): Pick<PinRow, 'kind' | 'name'> {
  return { kind: definition.kind, name: keyOf(definition) };
}

function idleStatus({ name, agent, fault }: IdleServer): UpstreamStatus {
  return {
    name,
    agent,
    transport: null,
    state: fault ? 'failed' : 'disabled',
    reason: fault?.message ?? null,
    protocol: null,
    offered: { tool: 0, resource: 0, template: 0, prompt: 0 },
    quarantined: 0,
    problems: [],
  };
}
