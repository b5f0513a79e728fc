import type { Agent } from '../agent/agent.js';
import type { AgentInit } from '../agent/agent-init.js';
import { SELF_DESCRIPTION } from '../agent/staffing.js';

/** The 21 Planetary agents. Their tiers are the mesh's default assignments. */
export const PLANETARY_ROSTER: readonly AgentInit[] = [
  planet('sun', 'Orchestrator: decomposes work, resolves dependencies, recovers from failures; never writes code.', [
    'orchestration.plan',
    'orchestration.escalation',
  ]),
  planet('mercury', 'Spec validator: judges every agent’s output as approved, to be revised, or rejected.', [
    'validation.spec',
    'validation.output',
    'validation.data',
  ]),
  planet('earth', 'Product specifications: user stories, acceptance criteria, scenarios.', [
    'product.spec',
    'product.acceptance',
  ]),
  planet('jupiter', 'Architecture: decision records, component boundaries, data flow, API contracts.', [
    'architecture.design',
    'architecture.api',
    'architecture.review',
  ]),
  planet('venus', 'Frontend and user experience: components, the five UI states, accessibility.', [
    'frontend.ui',
    'frontend.accessibility',
  ]),
  planet('mars', 'Backend: queries, mutations and actions in strict TypeScript, with row-level isolation.', [
    'backend.api',
    'backend.logic',
  ]),
  planet('pluto', 'Database schema: tables, validators, indexes, tenant isolation.', [
    'database.schema',
    'database.index',
  ]),
  planet('saturn', 'Testing: unit, component and end-to-end tests, coverage and traceability.', [
    'testing.unit',
    'testing.e2e',
  ]),
  planet('titan', 'Real time: subscriptions, presence, optimistic updates.', [
    'realtime.subscription',
    'realtime.presence',
  ]),
  planet('enceladus', 'Security: authentication, authorization, input validation, row-level review.', [
    'security.review',
    'security.auth',
  ]),
  planet('ganymede', 'External APIs: webhooks, third-party services, rate limits.', [
    'integration.api',
    'integration.webhook',
  ]),
  planet('neptune', 'Analytics: metrics, aggregation, dashboards, event tracking.', [
    'analytics.metrics',
    'analytics.events',
  ]),
  planet('charon', 'Error experience: error, empty and loading states, recovery flows.', ['ux.errors', 'ux.recovery']),
  planet('uranus', 'Research: evaluates tools and libraries, compares them, builds proofs of concept.', [
    'research.evaluate',
    'research.prototype',
    'research.search',
  ]),
  planet('europa', 'Mobile and responsive: installable web apps, touch, breakpoints, offline use.', [
    'mobile.responsive',
    'mobile.offline',
  ]),
  planet('mimas', 'Resilience: retries, circuit breakers, graceful degradation.', [
    'resilience.retry',
    'resilience.degradation',
  ]),
  planet('io', 'Performance: bundle, query and rendering budgets.', ['performance.profile', 'performance.budget']),
  planet('triton', 'Operations: integration, deployment, environments, releases.', ['devops.ci', 'devops.deploy']),
  planet('callisto', 'Documentation: API documents, guides, runbooks.', ['docs.api', 'docs.guide']),
  planet('atlas', 'Meta-learner: retrospectives, patterns, benchmarks, briefings, memory.', [
    'learning.retrospective',
    'learning.memory',
  ]),
  planet('andromeda', 'Ideas: market and gap analysis, proposals.', ['ideas.market', 'ideas.proposal']),
];

function planet(id: string, description: string, capabilities: readonly string[]): AgentInit {
  return { id, description, capabilities };
}

/** Gives an agent without a module of its own a tool that describes it. */
export function addDefaultBehaviour(agent: Agent): void {
  const describe = () => {
    const { id, name, tier, description, capabilities, status } = agent.card;
    const state = status?.state ?? 'ready';
    return { id, name, tier, description, capabilities: capabilities.map(({ id }) => id), state };
  };
  const description = `Says who ${agent.card.name} is, what it is for, and whether it has a worker.`;
  agent.tool(SELF_DESCRIPTION, { description, annotations: { readOnlyHint: true } }, describe);
}

/** Why an agent of the configuration or the roster has no worker, and the command or line of ecliptic.json that gives it one. */
export function vacancyOf(id: string, module?: string): { readonly reason: string; readonly fix: string } {
  if (module !== undefined) {
    return {
      reason: `${module} attaches no handler for it`,
      fix: `agent.onRequest(…) or agent.onTask(…) in ${module}`,
    };
  }
  return {
    reason: 'it is a role without a worker',
    fix: `ecliptic staff --roles ${id}, or in ecliptic.json "agents": { "${id}": { "model": … } } with a "model", "exec", "acp", "module", "command" or "a2a"`,
  };
}
