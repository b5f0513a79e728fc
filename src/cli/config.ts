import { verb } from './command.js';

const check = verb({
  summary: 'check a configuration file, and the modules and programs that it names',
  args: ['FILE?'],
  examples: ['', './deploy/ecliptic.json'],
  async run({ words: [file], env, output }) {
    const [{ loadConfig }, { checkPresence }] = await Promise.all([
      import('../node/config/load.js'),
      import('../node/config/check.js'),
    ]);
    const loaded = loadConfig(file ?? env.ECLIPTIC_CONFIG, process.cwd());
    checkPresence(loaded, env);
    const agents = Object.keys(loaded.config.agents ?? {}).length;
    output.value({ ok: true, file: loaded.file ?? null, agents }, () =>
      loaded.file
        ? `${loaded.file} is valid: it configures ${agents} agents`
        : 'there is no ecliptic.json here; defaults apply',
    );
  },
});

const schema = verb({
  summary: 'print the JSON Schema of the configuration',
  async run({ output }) {
    const { configJsonSchema } = await import('../node/config/schema.js');
    output.line(JSON.stringify(configJsonSchema(), null, 2));
  },
});

export const verbs = { check, schema };
