/** Texts of the view of one agent. */
export const AGENT_TEXT = {
  back: 'All agents',
  loading: 'Reading the agent.',
  missing: (address: string) => `There is no agent “${address}” here: it has left, or its node was not met yet.`,
  missingCommand: 'ecliptic agents',
  onNode: (node: string) => `on node ${node}`,
  facts: {
    state: 'State',
    tier: 'Tier',
    sandbox: 'Sandbox',
    load: 'Load',
    capabilities: 'Capabilities',
    description: 'Description',
    leases: 'Leases',
    address: 'Address',
  },
  staff: {
    title: 'How to staff it',
    why: 'No worker takes its messages. This makes one do so:',
  },
  workers: {
    title: 'Workers',
    label: 'Workers of this agent',
    none: 'No worker: the agent is a handler in code, or runs on another node.',
    columns: ['Worker', 'Type', 'Health', 'In progress', 'Completed', 'Failed', 'Last check', 'About'],
    load: (inFlight: number, limit: number) => `${inFlight} of ${limit}`,
  },
  tools: { title: 'Tools', none: 'It offers no tools.' },
  tasks: {
    title: 'Tasks',
    label: 'Latest tasks of this agent',
    none: 'No task of this agent is among the latest.',
    columns: ['Task', 'State', 'Role', 'Other side', 'Text', 'Begun'],
    does: 'does it',
    asked: 'asked for it',
  },
  messages: {
    title: 'Latest messages',
    none: 'No message from it or to it is in the journal.',
    threads: 'Its conversations',
  },
  card: 'Card',
} as const;
