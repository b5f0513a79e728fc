import { existsSync, writeFileSync } from 'node:fs';
import { basename, dirname, relative, resolve } from 'node:path';
import { EclipticError } from '../runtime/errors.js';
import { flag, list, text, verb, whole } from './command.js';
import { type Output, usage } from './output.js';
import { agentStarter, type Starter, toolStarter } from './starter.js';

const OPTIONS = {
  tier: whole('the agent’s tier, 0 to 3 (default: 2)'),
  capabilities: list('LIST', 'what it offers, such as code.review,docs.write'),
  config: text('FILE', 'the configuration that gets the agent (default: ECLIPTIC_CONFIG, or ecliptic.json here)'),
  'dry-run': flag('show the files and write none'),
};

interface Values {
  readonly tier?: number | undefined;
  readonly capabilities?: string[] | undefined;
  readonly config?: string | undefined;
  readonly 'dry-run'?: boolean | undefined;
}

/** The run of the tests: Node 20 needs a loader for TypeScript, and Ecliptic brings one. */
const TEST = 'node --import jiti/register --test';

const agent = verb({
  summary: 'write an agent in TypeScript with a test, and add it to ecliptic.json',
  args: ['NAME'],
  options: OPTIONS,
  examples: ['reviewer', 'reviewer --tier 2 --capabilities code.review'],
  run: ({ words: [name], values, env, output }) => write(name, agentStarter(name), values, env, output),
});

const tool = verb({
  summary: 'write an agent that offers a tool, with a test, and add it to ecliptic.json',
  args: ['NAME'],
  options: OPTIONS,
  examples: ['word-count'],
  run: ({ words: [name], values, env, output }) => write(name, toolStarter(name), values, env, output),
});

async function write(
  id: string,
  starter: Starter,
  { tier = 2, capabilities, config, 'dry-run': dry }: Values,
  env: Readonly<Record<string, string | undefined>>,
  output: Output,
): Promise<void> {
  if (!/^[a-z][a-z0-9-]{0,40}$/.test(id)) {
    throw usage(`NAME must begin with a small letter and have only small letters, digits and "-", not "${id}"`);
  }
  if (tier > 3) throw usage(`--tier is 0 to 3, not ${tier}`);
  const [{ readStaffedConfig, staffedText }, { parseConfig }, files] = await Promise.all([
    import('../node/staffing/config-text.js'),
    import('../node/config/load.js'),
    import('../system/files/text-file.js'),
  ]);
  const configFile = resolve(config ?? (env.ECLIPTIC_CONFIG || 'ecliptic.json'));
  const folder = dirname(configFile);
  const module = resolve(folder, `${id}.ts`);
  const test = resolve(folder, `${id}.test.ts`);
  for (const file of [module, test]) if (existsSync(file)) throw taken(`${file} exists already`, file);
  const before = files.readUtf8(configFile);
  if (readStaffedConfig(before).agents?.[id] !== undefined) {
    throw taken(`${configFile} has an agent "${id}" already`, configFile);
  }
  const entry = { tier, ...(capabilities ? { capabilities } : {}), module: `./${id}.ts` };
  const after = staffedText(before, [{ role: id, workers: [{ config: entry }] }]);
  parseConfig(after, configFile);
  if (!dry) {
    writeFileSync(module, starter.module, { flag: 'wx' });
    writeFileSync(test, starter.test, { flag: 'wx' });
    files.replaceText(configFile, after, 0o644);
  }
  const named = [module, test, configFile].map((file) => relative(process.cwd(), file) || basename(file));
  const next = [`${TEST} ${named[1]}`, 'npx ecliptic up', starter.use];
  const value = { id, written: !dry, files: [module, test, configFile], entry, next };
  output.value(dry ? { ...value, module: starter.module, test: starter.test } : value, () =>
    dry
      ? [`// ${named[0]}\n${starter.module}`, `// ${named[1]}\n${starter.test}`, `// ${named[2]}\n${after}`].join('\n')
      : [
          `Written: ${named.join(', ')}`,
          '',
          'Next:',
          `  ${next[0]}    # test it`,
          `  ${next[1]}    # in a second terminal, or restart the running node`,
          `  ${next[2]}`,
        ].join('\n'),
  );
}

function taken(reason: string, file: string): EclipticError {
  return new EclipticError('INVALID_CONFIG', `${reason} and stays as it is; choose another name`, { file });
}

export const verbs = { agent, tool };
