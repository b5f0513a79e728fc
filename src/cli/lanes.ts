import type { LaneRow } from '../providers/host/lanes.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';

export const command: Command = {
  summary: 'list the lanes that providers run in, close one, or open it again',
  usage: 'lanes [close|open LANE]',
  words: [0, 2],
  optionHelp: [
    ['close LANE', 'end the providers of that lane, and nobody else’s'],
    ['open LANE', 'start the providers of a closed lane again'],
  ],
  examples: ['ecliptic lanes', 'ecliptic lanes --json', 'ecliptic lanes close mars', 'ecliptic lanes open mars'],
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
    if ((verb !== 'close' && verb !== 'open') || lane === undefined) throw misuse(command, words);
    const changed = await (await connect()).call(`lanes.${verb}`, { lane });
    output.value(changed, () =>
      verb === 'open'
        ? `Lane ${lane} is open again.`
        : `Lane ${lane} is closed; undo it with: ecliptic lanes open ${lane}`,
    );
  },
};

function cells({ lane, folder, providers, closed }: LaneRow): string[][] {
  if (closed) return [[lane, '-', 'closed', '-', '-', '-', '-', `open it with: ecliptic lanes open ${lane}`]];
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
