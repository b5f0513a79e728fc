import { runInNewContext } from 'node:vm';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/server/validators/cf-worker';
import { EclipticError } from '../../runtime/errors.js';

export type JsonSchema = Readonly<Record<string, unknown>>;

/** What is wrong with the text of a data file. */
export interface Fault {
  readonly rule: 'syntax' | 'duplicate-key';
  readonly line: number;
  readonly message: string;
}

export interface Mismatch {
  readonly path: readonly string[];
  readonly message: string;
}

const MAX_MISMATCHES = 20;
const CHECK_MS = 1_000;
const TOO_SLOW: Mismatch = {
  path: [],
  message: `not checked: the patterns of the schema take more than ${CHECK_MS} ms`,
};
/** Schemas that took too long once. */
const slow = new WeakSet<JsonSchema>();
const NOT_ALLOWED = 'this is not allowed here';
/** A mismatch of a part, which is reported itself. */
const OF_A_PART =
  /does not match schema\.$|had errors\.$|does not match additional properties schema\.$|Items did not match schema/;

/** No alternative, or more than one. */
const OF_ALTERNATIVES = /does not match (any subschemas|exactly one subschema)/;
const LACKS = /^it does not have required property ("[^"]*")$/;

/**
 * Where a value does not match a schema. The validator interprets the schema: one of a stranger must not become code, as
 * it would in validators that compile.
 */
export function checkBySchema(value: unknown, schema: JsonSchema): Mismatch[] {
  const draft = /draft-0?([47])/.exec(String(schema.$schema ?? ''))?.[1] as '4' | '7' | undefined;
  let said: string | undefined;
  if (slow.has(schema)) return [TOO_SLOW];
  try {
    const validator = new CfWorkerJsonSchemaValidator({ shortcircuit: false, ...(draft && { draft }) });
    const check = () => validator.getValidator(schema as never)(value).errorMessage;
    // A pattern of a stranger may backtrack for ever, and only this timeout interrupts an expression.
    said = runInNewContext('check()', { check }, { timeout: CHECK_MS }) as string | undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') {
      slow.add(schema);
      return [TOO_SLOW];
    }
    const reason = error instanceof Error ? error.message.slice(0, 300) : String(error);
    throw new EclipticError('INVALID_ARGUMENTS', `the schema cannot be used: ${reason}`, { reason }, error);
  }
  const all = (said ?? '').split(/; (?=#)/).flatMap((line) => {
    const [, pointer, message] = /^#(\S*?): (.*)$/s.exec(line) ?? [];
    return pointer === undefined || OF_A_PART.test(message!) ? [] : [{ pointer, message: wordsOf(message!) }];
  });
  // A part that is wrong makes everything around it wrong, and counts as one that no schema describes.
  const innermost = all.filter(({ pointer, message }) => {
    const isEcho = (other: { pointer: string; message: string }) =>
      other.pointer.startsWith(`${pointer}/`) ||
      (message === NOT_ALLOWED && other.pointer === pointer && other.message !== NOT_ALLOWED);
    return !all.some(isEcho);
  });
  const distinct = new Map(ofAlternatives(innermost).map((one) => [`${one.pointer} ${one.message}`, one]));
  return [...distinct.values()].slice(0, MAX_MISMATCHES).map(({ pointer, message }) => ({
    path: pointer.split('/').slice(1).map(unescaped),
    message,
  }));
}

interface Complaint {
  readonly pointer: string;
  readonly message: string;
}

/** Alternatives of which none fits are one fault, and what each lacks is its reason. */
function ofAlternatives(all: readonly Complaint[]): Complaint[] {
  const reasons = new Map<string, string[]>();
  for (const { pointer, message } of all) if (OF_ALTERNATIVES.test(message)) reasons.set(pointer, []);
  const merged = all.filter(({ pointer, message }) => {
    const about = reasons.get(pointer);
    if (about && !OF_ALTERNATIVES.test(message)) about.push(message);
    return about === undefined;
  });
  for (const [pointer, messages] of reasons) {
    const missing = messages.map((message) => LACKS.exec(message)?.[1]);
    const distinct = [...new Set(messages)];
    const message = missing.every((name) => name !== undefined)
      ? `it has none of ${missing.join(', ')}`
      : distinct.join(', and ');
    merged.push({ pointer, message: distinct.length === 0 ? 'it is none of what is allowed here' : message });
  }
  return merged;
}

function unescaped(part: string): string {
  const text = part.replaceAll('~1', '/').replaceAll('~0', '~');
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function wordsOf(message: string): string {
  if (message === 'False boolean schema.') return NOT_ALLOWED;
  return message
    .replace(/^Instance does/, 'it does')
    .replace(/^Instance /, 'the ')
    .replace(/\.$/, '');
}
