import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SCHEMA_FOLDER } from '../runtime/package.js';

type Schema = Readonly<Record<string, unknown>>;

/** `schema/output.schema.json`. */
interface OutputSchemas {
  readonly $schema: string;
  /** Of the line on standard error when a command fails. */
  readonly error: Schema;
  /** Of each line on standard output, by command. */
  readonly commands: Readonly<Record<string, Schema>>;
  readonly $defs: Readonly<Record<string, Schema>>;
}

export function outputSchemas(): OutputSchemas {
  return JSON.parse(readFileSync(join(SCHEMA_FOLDER, 'output.schema.json'), 'utf8')) as OutputSchemas;
}

/** The schema of what a command prints with `--json`, with the definitions that it needs; undefined if it prints none. */
export function outputSchema(command: string, all = outputSchemas()): Schema | undefined {
  const schema = Object.hasOwn(all.commands, command) ? all.commands[command] : undefined;
  return schema && standalone(schema, all);
}

/** The schema of the line that a failed command writes on standard error. */
export function errorSchema(all = outputSchemas()): Schema {
  return standalone(all.error, all);
}

function standalone(schema: Schema, { $schema, $defs }: OutputSchemas): Schema {
  const needed = new Map<string, Schema>();
  const note = (part: Schema) => {
    for (const [, name] of JSON.stringify(part).matchAll(/"#\/\$defs\/(\w+)"/g)) {
      if (needed.has(name!)) continue;
      needed.set(name!, $defs[name!]!);
      note($defs[name!]!);
    }
  };
  note(schema);
  return { $schema, ...schema, ...(needed.size > 0 && { $defs: Object.fromEntries(needed) }) };
}
