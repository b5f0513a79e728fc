import type { LaneRow } from '../providers/lanes.js';
import type { Command } from './command.js';
import { usage } from './output.js';

export const command: Command = {
  summary: 'list the lanes that providers run in, or close one',
  usage: 'lanes [close LANE]',
  words: [0, 2],
  optionHelp: [['close', 'end the providers of that lane, and nobody else’s']],
  examples: ['ecliptic lanes', 'ecliptic lanes --json', 'ecliptic lanes close mars'],
  async run({ connect, words, output }) {
    const [verb, lane] = words;
    if (verb === undefined) {
      const rows = await (await connect()).call<LaneRow[]>('lanes');
      output.table(
        rows,
        ['LANE', 'PROVIDER', 'STATE', 'PROCESS', 'MEMORY', 'AT WORK', 'CRASHES', 'REMARK'],
        rows.flatMap(cells),
        'no lanes; add an agent with a "command" or "acp", or an MCP server with a "command", to ecliptic.json',
      );
      return;
    }
    if (verb !== 'close' || lane === undefined) throw usage(`usage: ecliptic ${command.usage}`);
    const closed = await (await connect()).call('lanes.close', { lane });
    output.value(closed, () => `Lane ${lane} is closed.`);
  },
};

function cells({ lane, folder, providers }: LaneRow): string[][] {
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
