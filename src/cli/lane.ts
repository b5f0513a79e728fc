import type { LaneRow } from '../providers/host/lanes.js';
import { verb } from './command.js';

const list = verb({
  summary: 'list the lanes that providers run in',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('lanes');
    output.table(
      rows,
      ['LANE', 'PROVIDER', 'STATE', 'PROCESS', 'MEMORY', 'AT WORK', 'CRASHES', 'REMARK'],
      rows.flatMap(cells),
      'no lanes; add an agent with a "command" or "acp", or an MCP server with a "command", to ecliptic.json',
    );
  },
});

const close = verb({
  summary: 'stop the providers of a lane',
  args: ['LANE'],
  examples: ['mars'],
  async run({ call, words: [lane], output }) {
    const changed = await call('lanes.close', { lane });
    output.value(changed, () => `Lane ${lane} is closed; undo it with: ecliptic lane open ${lane}`);
  },
});

const open = verb({
  summary: 'start the providers of a closed lane again',
  args: ['LANE'],
  examples: ['mars'],
  async run({ call, words: [lane], output }) {
    const changed = await call('lanes.open', { lane });
    output.value(changed, () => `Lane ${lane} is open again.`);
  },
});

function cells({ lane, folder, providers, closed }: LaneRow): string[][] {
  if (closed) return [[lane, '-', 'closed', '-', '-', '-', '-', `open it with: ecliptic lane open ${lane}`]];
  if (providers.length === 0) return [[lane, '-', '-', '-', '-', '-', '-', folder]];
  return providers.map(({ provider, state, pid, memoryBytes, inFlight, crashes, reason }) => [
    lane,
    provider,
    state,
    pid === null ? '-' : String(pid),
    memoryBytes === null ? '-' : `${Math.round(memoryBytes / 1_048_576)} MB`,
    String(inFlight),
    String(crashes),
    reason ?? folder,
  ]);
}

export const verbs = { list, close, open };
