import type { z } from 'zod';
import { EclipticError, type ErrorCode } from '../runtime/errors.js';
import { splitAddress } from './address.js';
import {
  type A2AEnvelope,
  type A2AMessageType,
  type AgentTier,
  type SandboxRoutingConfig,
  SandboxRoutingConfigSchema,
  type StateRules,
  StateRulesSchema,
  type TierRoutingConfig,
  TierRoutingConfigSchema,
} from './schemas.js';
import { DEFAULT_TIER_RULES } from './tier-config.js';

/** An agent as policy sees it. Tier and sandbox come from its registered card, never from a message. */
export interface Party {
  /** `id` for an agent of this node, `id@node` for another's. */
  readonly address: string;
  readonly node: string | undefined;
  readonly tier: AgentTier;
  readonly sandboxId: string | undefined;
}

/** Which project the agents of this node belong to, by their addresses. */
export interface ProjectScopes {
  /** Agents that a project's own configuration brought: they exist for their project and the owner only. */
  readonly agents: ReadonlyMap<string, string>;
  /** Clients that work in a project, besides everything else that they may reach. */
  readonly clients: ReadonlyMap<string, string>;
}

type Action = 'message' | 'discover' | 'tool' | StateAction;
export type StateAction = 'state-read' | 'state-write';

export type Decision = typeof ALLOWED | Refusal;

interface Refusal {
  readonly allowed: false;
  readonly code: Extract<ErrorCode, 'SANDBOX_VIOLATION' | 'TIER_VIOLATION' | 'ESCALATION_REQUIRED'>;
  readonly reason: string;
}

const ALLOWED = { allowed: true } as const;

/** Tier and sandbox configuration, compiled for `decide`. */
export interface PolicyRules {
  /** By source tier: a bit for each tier with which it may open a conversation. */
  readonly tierMasks: readonly number[];
  /** By source tier: must a proposal to L0 or L1 be justified? */
  readonly justify: readonly boolean[];
  readonly sandboxEnforced: boolean;
  readonly allowEverySandbox: ReadonlySet<string>;
  readonly allowBySandbox: ReadonlyMap<string, ReadonlySet<string>>;
  readonly sharedSandboxes: ReadonlySet<string>;
  readonly projects: ProjectScopes | undefined;
  /** By the name of a shared document: a bit for each tier that may read or write it. Without an entry, all may. */
  readonly documents: ReadonlyMap<string, Readonly<Record<StateAction, number>>>;
}

function compileRules(
  { rules }: TierRoutingConfig,
  sandbox: z.output<typeof SandboxRoutingConfigSchema>,
  documents: StateRules,
  nodeKey: string | undefined,
  projects: ProjectScopes | undefined,
): PolicyRules {
  const tierMasks = [0, 0, 0, 0];
  const justify = [false, false, false, false];
  for (const rule of rules) {
    tierMasks[rule.sourceTier] = maskOf(rule.allowedTargetTiers);
    justify[rule.sourceTier] = rule.requiresEscalationJustification;
  }
  // Agents and sandboxes of this node are compared by id, also if a list gives their full address.
  const local = (name: string) => (splitAddress(name).node === nodeKey ? splitAddress(name).id : name);
  const addresses = (list: readonly string[]) => new Set(list.map(local));
  return {
    tierMasks,
    justify,
    sandboxEnforced: sandbox.enforced,
    allowEverySandbox: addresses(sandbox.crossSandboxAllowList),
    allowBySandbox: new Map(Object.entries(sandbox.allow).map(([id, agents]) => [local(id), addresses(agents)])),
    sharedSandboxes: new Set(sandbox.shared),
    projects,
    documents: new Map(
      Object.entries(documents).map(([name, { read, write }]) => {
        const masks = { 'state-read': maskOf(read), 'state-write': maskOf(write) };
        return [name, masks];
      }),
    ),
  };
}

const EVERY_TIER: readonly AgentTier[] = [0, 1, 2, 3];

function maskOf(tiers: readonly AgentTier[] = EVERY_TIER): number {
  return tiers.reduce<number>((mask, tier) => mask | (1 << tier), 0);
}

/**
 * May `principal` do this to `target`? The only decision for every path: direct, capability, broadcast, discovery, tools
 * and shared documents. The sandbox comes first, also for replies and for L0; then tier and escalation for messages that
 * open a conversation, and the tiers of a document. A message is `inReply` if its recipient opened the thread to its
 * sender. A document is a party in a sandbox, too: its content flows from there to the reader. Pure.
 */
function decide(
  rules: PolicyRules,
  principal: Party,
  action: Action,
  target: Party,
  type?: A2AMessageType,
  inReply = false,
  justification?: string,
): Decision {
  const outside = rules.projects && outsideProject(rules.projects, principal, target);
  if (outside !== undefined) return refuse('SANDBOX_VIOLATION', outside);
  const isRead = action === 'state-read';
  const from = isRead ? target : principal;
  const to = isRead ? principal : target;
  if (from.sandboxId !== undefined && !withinSandbox(rules, from, to)) {
    return refuse(
      'SANDBOX_VIOLATION',
      `${from.address} is in sandbox "${from.sandboxId}", which does not include or allow ${to.address}`,
    );
  }
  if (action === 'state-read' || action === 'state-write') {
    const mask = rules.documents.get(target.address)?.[action];
    if (mask === undefined || (mask & (1 << principal.tier)) !== 0) return ALLOWED;
    const verb = action === 'state-read' ? 'read' : 'write';
    const reason = `L${principal.tier} (${principal.address}) may not ${verb} the document "${target.address}"`;
    return refuse('TIER_VIOLATION', reason);
  }
  if (action !== 'message' || inReply) return ALLOWED;
  if ((rules.tierMasks[principal.tier]! & (1 << target.tier)) === 0) {
    return refuse(
      'TIER_VIOLATION',
      `L${principal.tier} (${principal.address}) may not open a conversation with L${target.tier} (${target.address})`,
    );
  }
  if (type === 'task-proposal' && target.tier <= 1 && rules.justify[principal.tier] && !justification?.trim()) {
    return refuse(
      'ESCALATION_REQUIRED',
      `a proposal from L${principal.tier} to L${target.tier} must carry metadata.escalationJustification`,
    );
  }
  return ALLOWED;
}

/** The name under which the owner of this node acts, in no project and reaching all of them. */
const OWNER = 'operator';

/** Why two parties do not share a project, where one of them exists for a project only. */
function outsideProject({ agents, clients }: ProjectScopes, one: Party, other: Party): string | undefined {
  const [ofOne, ofOther] = [agents.get(one.address), agents.get(other.address)];
  if ((ofOne ?? ofOther) === undefined || one.address === OWNER || other.address === OWNER) return undefined;
  const projectOf = ({ address }: Party) => agents.get(address) ?? clients.get(address);
  if (projectOf(one) === projectOf(other)) return undefined;
  const [inside, beyond] = ofOne === undefined ? [other, one] : [one, other];
  return `${inside.address} exists for its project only, in which ${beyond.address} does not work`;
}

function withinSandbox(rules: PolicyRules, principal: Party, target: Party): boolean {
  if (!rules.sandboxEnforced) return true;
  const sandbox = principal.sandboxId!;
  if (target.sandboxId === sandbox && (target.node === principal.node || rules.sharedSandboxes.has(sandbox))) {
    return true;
  }
  if (rules.allowEverySandbox.has(target.address)) return true;
  // A sandbox of another node is another sandbox, even under the same name: this node's list does not apply to it.
  const own = principal.node === undefined || rules.sharedSandboxes.has(sandbox);
  return rules.allowBySandbox.get(own ? sandbox : `${sandbox}@${principal.node}`)?.has(target.address) === true;
}

function refuse(code: Refusal['code'], reason: string): Refusal {
  return { allowed: false, code, reason };
}

export class Policy {
  readonly #nodeKey: string | undefined;
  #tiers = parseConfig(TierRoutingConfigSchema, { rules: DEFAULT_TIER_RULES }, 'tier rules');
  #sandbox = parseConfig(SandboxRoutingConfigSchema, { enforced: true }, 'sandbox rules');
  #documents: StateRules = {};
  #projects: ProjectScopes | undefined;
  #rules: PolicyRules;

  /** With this node's key, lists may contain the full addresses of its own agents. */
  constructor(nodeKey?: string) {
    this.#nodeKey = nodeKey;
    this.#rules = this.#compiled();
  }

  #compiled(): PolicyRules {
    return compileRules(this.#tiers, this.#sandbox, this.#documents, this.#nodeKey, this.#projects);
  }

  /** Sets which agents exist for one project only, and which clients work in one. */
  setProjects(projects: ProjectScopes): void {
    this.#projects = projects.agents.size === 0 ? undefined : projects;
    this.#rules = this.#compiled();
  }

  /** Does the agent exist for a project of this node only? */
  isConfined(address: string): boolean {
    return this.#projects?.agents.has(address) === true;
  }

  /** Does the agent exist for a project in which the caller does not work? */
  isConfinedFrom(address: string, caller: string): boolean {
    const party = (name: string): Party => ({ address: name, node: undefined, tier: 3, sandboxId: undefined });
    return this.#projects !== undefined && outsideProject(this.#projects, party(caller), party(address)) !== undefined;
  }

  setTierConfig(config: TierRoutingConfig): void {
    this.#tiers = parseConfig(TierRoutingConfigSchema, config, 'tier rules');
    this.#rules = this.#compiled();
  }

  setSandboxConfig(config: SandboxRoutingConfig): void {
    this.#sandbox = parseConfig(SandboxRoutingConfigSchema, config, 'sandbox rules');
    this.#rules = this.#compiled();
  }

  /** Sets which tiers may read and write which shared documents. */
  setStateConfig(config: StateRules): void {
    this.#documents = parseConfig(StateRulesSchema, config, 'rules of shared documents');
    this.#rules = this.#compiled();
  }

  /** May `principal` read or write a shared document? Its address is its name. */
  judgeState(principal: Party, action: StateAction, document: Party): Decision {
    return decide(this.#rules, principal, action, document);
  }

  /** Is a sandbox of that name the same one on every node? */
  isShared(sandboxId: string): boolean {
    return this.#rules.sharedSandboxes.has(sandboxId);
  }

  mayDiscover(viewer: Party, target: Party): boolean {
    return decide(this.#rules, viewer, 'discover', target).allowed;
  }

  /** May `principal` see and use the tools of `owner`? Only the sandbox counts. */
  mayUse(principal: Party, owner: Party): boolean {
    return decide(this.#rules, principal, 'tool', owner).allowed;
  }

  judge(envelope: A2AEnvelope, source: Party, target: Party, inReply: boolean): Decision {
    const justification = envelope.metadata?.escalationJustification;
    return decide(this.#rules, source, 'message', target, envelope.type, inReply, justification);
  }

  /** May `source` open a conversation with `target` by a message of this type? */
  ask(source: Party, target: Party, type: A2AMessageType, justification?: string): Decision {
    return decide(this.#rules, source, 'message', target, type, false, justification);
  }

  /**
   * As `ask`, for a request or a notification on the direct path. Where no sandbox is involved only the tiers count, and
   * without the call of `decide` a local send takes a tenth less (116 ns instead of 131, medians of six runs in turn).
   */
  mayOpen(source: Party, target: Party): boolean {
    if (source.sandboxId !== undefined || this.#rules.projects) return this.ask(source, target, 'request').allowed;
    return (this.#rules.tierMasks[source.tier]! & (1 << target.tier)) !== 0;
  }

  /** May `responder` answer a question of `opener`? */
  judgeAnswer(responder: Party, opener: Party): Decision {
    return decide(this.#rules, responder, 'message', opener, 'response', true);
  }
}

function parseConfig<Schema extends z.ZodType>(schema: Schema, value: unknown, name: string): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((issue) => `${issue.path.map(String).join('.') || name}: ${issue.message}`);
  throw new EclipticError('INVALID_CONFIG', `${name}: ${faults.join('; ')}`, { faults });
}
