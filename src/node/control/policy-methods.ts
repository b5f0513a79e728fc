import { joinAddress } from '../../mesh/address.js';
import type { Party } from '../../mesh/policy.js';
import type { A2ALogEvent, AgentTier } from '../../mesh/schemas.js';
import { cutText } from '../../runtime/text.js';
import { type ControlContext, type Handlers, storeRequired } from './context.js';
import { journalled } from './message-lines.js';
import type { AuditedEvent, PolicyMatrix, SandboxCell, TierCell } from './policy-rows.js';

const PAGE = 100;
const MAX_ROWS = 500;
/** Agents that a cell names. */
const NAMED = 20;
const ABOUT_CHARS = 500;
const TIERS: readonly AgentTier[] = [0, 1, 2, 3];

/** The owner's questions about the rules: who may reach whom, and what was refused. */
export function policyMethods({ node }: Pick<ControlContext, 'node'>) {
  const records = () => {
    if (node.records) return node.records;
    throw storeRequired();
  };
  return {
    'policy.matrix': (): PolicyMatrix => ({ tiers: tierCells(node), sandboxes: sandboxCells(node) }),
    async refusals({ limit = PAGE }) {
      const rows = await records().journal.search({ refused: true, limit: Math.min(limit, MAX_ROWS) });
      return rows.map(journalled);
    },
    async 'audit.events'({ limit = PAGE }): Promise<AuditedEvent[]> {
      const rows = await records().audit.latest(Math.min(limit, MAX_ROWS));
      return rows.map((row) => ({ ...row, about: aboutOf(row.event) }));
    },
  } satisfies Partial<Handlers>;
}

/** The record has it among its details, which differ by the kind of event. */
function aboutOf({ details }: Pick<A2ALogEvent, 'details'>): string | null {
  const { action, subject, item, name } = details ?? {};
  const said = [action, subject ?? item ?? name].filter((part) => typeof part === 'string' && part !== '');
  return said.length === 0 ? null : cutText(said.join(' '), ABOUT_CHARS);
}

/** Asks the policy about agents that stand for their tiers. */
function tierCells({ registry }: ControlContext['node']): TierCell[] {
  const standIn = (tier: AgentTier): Party => ({ address: 'any', node: undefined, tier, sandboxId: undefined });
  return TIERS.flatMap((from) =>
    TIERS.map((to) => ({
      from,
      to,
      request: registry.policy.ask(standIn(from), standIn(to), 'request'),
      proposal: registry.policy.ask(standIn(from), standIn(to), 'task-proposal'),
    })),
  );
}

/** Asks the policy about an agent in each sandbox of this node, and all agents. */
function sandboxCells({ registry, mcp }: ControlContext['node']): SandboxCell[] {
  const cards = registry.listAll();
  const groups = new Map<string, { sandbox: string | null; node: string | null; addresses: string[] }>();
  for (const { id, node, sandboxId } of cards) {
    const key = JSON.stringify([sandboxId, node]);
    const group = groups.get(key) ?? { sandbox: sandboxId ?? null, node: node ?? null, addresses: [] };
    group.addresses.push(node === undefined ? id : joinAddress(id, node));
    groups.set(key, group);
  }
  const own = new Set(cards.flatMap(({ node, sandboxId }) => (node === undefined ? [sandboxId ?? null] : [])));
  return [...own].flatMap((from) => {
    const principal: Party = { address: 'any', node: undefined, tier: 0, sandboxId: from ?? undefined };
    return [...groups.values()].map(({ sandbox, node, addresses }): SandboxCell => {
      const reached = addresses.filter((address) => mcp.mayUse(principal, address));
      const isSome = reached.length < addresses.length;
      const counts = { agents: addresses.length, reached: reached.length };
      return { from, to: sandbox, node, ...counts, some: isSome ? reached.slice(0, NAMED) : [] };
    });
  });
}
