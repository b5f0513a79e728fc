import { checkPresence } from '../node/config/check.js';
import { loadConfig } from '../node/config/load.js';
import { configJsonSchema } from '../node/config/schema.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';

export const command: Command = {
  summary: 'check a configuration file and the modules and programs that it names, or print its JSON Schema',
  usage: 'config check [FILE] | config schema',
  words: [1, 2],
  examples: ['ecliptic config check', 'ecliptic config check ./deploy/ecliptic.json', 'ecliptic config schema'],
  async run({ words, env, output }) {
    const [action, file] = words;
    if (action === 'schema' && file === undefined) return output.line(JSON.stringify(configJsonSchema(), null, 2));
    if (action !== 'check') throw misuse(command, words);
    const loaded = loadConfig(file ?? env.ECLIPTIC_CONFIG, process.cwd());
    checkPresence(loaded, env);
    const agents = Object.keys(loaded.config.agents ?? {}).length;
    output.value({ ok: true, file: loaded.file ?? null, agents }, () =>
      loaded.file
        ? `${loaded.file} is fine: ${agents} agents of its own`
        : 'there is no ecliptic.json here; defaults apply',
    );
  },
};
