import type { LaneRow } from '../providers/host/lanes.js';
import { verb } from './command.js';
import type { Cells } from './output.js';

const list = verb({
  summary: 'list the lanes that providers run in',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('lanes');
    const none =
      'no lanes; add an agent with a "command" or "acp", or an MCP server with a "command", to ecliptic.json';
    output.rows(rows.flatMap(laneCells), none, (cells) => cells, rows);
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

function laneCells({ lane, folder, providers, closed }: LaneRow): Cells[] {
  const empty = { PROVIDER: '-', STATE: '-', PROCESS: '-', MEMORY: '-', 'AT WORK': '-', CRASHES: '-', REMARK: folder };
  if (closed) return [{ LANE: lane, ...empty, STATE: 'closed', REMARK: `open it with: ecliptic lane open ${lane}` }];
  if (providers.length === 0) return [{ LANE: lane, ...empty }];
  return providers.map(({ provider, state, pid, memoryBytes, inFlight, crashes, reason }) => ({
    LANE: lane,
    PROVIDER: provider,
    STATE: state,
    PROCESS: pid,
    MEMORY: memoryBytes === null ? '-' : `${Math.round(memoryBytes / 1_048_576)} MB`,
    'AT WORK': inFlight,
    CRASHES: crashes,
    REMARK: reason ?? folder,
  }));
}

export const verbs = { list, close, open };
