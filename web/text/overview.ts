/** Texts of the overview. */
export const OVERVIEW_TEXT = {
  loading: 'Reading the agents.',
  facts: (agents: number, working: number, unstaffed: number, unreachable: number) =>
    [
      `${agents} ${agents === 1 ? 'agent' : 'agents'}`,
      ...(working > 0 ? [`${working} working`] : []),
      ...(unstaffed > 0 ? [`${unstaffed} unstaffed`] : []),
      ...(unreachable > 0 ? [`${unreachable} unreachable`] : []),
    ].join(', '),
  nodes: (count: number, away: number) =>
    `${count} ${count === 1 ? 'node' : 'nodes'}${away > 0 ? `, ${away} away` : ''}`,
  rate: (perSecond: number) =>
    perSecond === 0 ? 'no messages now' : `${perSecond} ${perSecond === 1 ? 'message' : 'messages'} a second`,
  sampled: (shown: number) => `drawn from a sample of ${shown}`,
  flow: (perSecond: number) => `${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)}/s`,
  flowWithin: (perSecond: number) => {
    const rate = Math.round(perSecond).toLocaleString('en');
    return [[`${rate} msg/s`, 'within'], [`${rate}/s`]];
  },
  title: (agents: number, connected: boolean) =>
    `${agents} ${agents === 1 ? 'agent' : 'agents'}${connected ? '' : ', away'}`,
  collapsed: (working: number, unstaffed: number) => `${working} working, ${unstaffed} unstaffed`,
  collapse: 'Collapse',
  collapsedHow: 'Enter or click shows them one by one',
  table: 'Table',
  picture: 'Orrery',
  label: (facts: string) =>
    `The agents as an orrery: ${facts}. The table of the same facts: key t. Arrow keys select an agent, Enter opens it.`,
  tableLabel: 'All agents',
  columns: ['Agent', 'Node', 'Tier', 'State', 'Health of workers', 'Load', 'Sandbox', 'Leases'],
  ownNode: 'this node',
  load: (queued: number, working: number) => (queued + working === 0 ? 'idle' : `${queued} queued, ${working} working`),
  leases: (count: number) => `${count} ${count === 1 ? 'lease' : 'leases'}`,
  sandbox: (name: string) => `sandbox ${name}`,
  tier: (tier: number) => `L${tier}`,
  noWorkers: 'none',
  legend: [
    ['Size', 'load'],
    ['Ring', 'health: ─ healthy, ╌ starting, ┅ degraded, ✕ failed, ┈ unreachable'],
    ['Hollow', 'unstaffed'],
    ['Dashed orbit', 'sandbox'],
    ['Square and double line', 'leases'],
  ],
  legendTitle: 'Legend',
} as const;
