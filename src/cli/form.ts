import { createInterface } from 'node:readline/promises';
import type { InputRequest } from '@modelcontextprotocol/server';
import { readSchema } from '../mcp/schema.js';
import { oneLine, usage } from './output.js';

/** Answers the questions that a tool asks its caller in the middle of a call. */

interface Field {
  readonly type?: string;
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly string[];
  readonly oneOf?: readonly Choice[];
  readonly items?: { readonly enum?: readonly string[]; readonly anyOf?: readonly Choice[] };
}

interface Choice {
  readonly const: string;
  readonly title: string;
}

interface FormSchema {
  readonly properties: Readonly<Record<string, Field>>;
  readonly required?: readonly string[];
}

type Params = {
  readonly message: string;
  readonly mode?: string;
  readonly url?: string;
  readonly requestedSchema?: FormSchema;
};

interface Answer {
  readonly action: 'accept' | 'decline' | 'cancel';
  readonly content?: Readonly<Record<string, unknown>>;
}

/** Asks for one line of text. Returns undefined at the end of the input. */
type AskLine = (question: string) => Promise<string | undefined>;

/** Answers for all questions, from `--answer`: the fields by name, or `decline`. */
export function answersFrom(given: string): (request: InputRequest) => Promise<Answer> {
  let fields: unknown;
  if (given !== 'decline') {
    try {
      fields = JSON.parse(given);
    } catch {
      throw usage('--answer is neither JSON nor "decline"');
    }
    if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
      throw usage('--answer must be an object with the fields of the form');
    }
  }
  return async ({ params }) => {
    if (fields === undefined) return { action: 'decline' };
    const { requestedSchema } = params as Params;
    if (!requestedSchema) return { action: 'accept' };
    const known = Object.entries(fields as object).filter(([name]) => Object.hasOwn(requestedSchema.properties, name));
    const content = Object.fromEntries(known);
    const faults = await faultsOf(requestedSchema, content);
    if (faults.length > 0) throw usage(`--answer does not fit the form: ${faults.join('; ')}`);
    return { action: 'accept', content };
  };
}

/** Asks the person at the terminal. */
export async function answerAtTerminal(request: InputRequest): Promise<Answer> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const ended = new Promise<undefined>((resolve) => terminal.once('close', () => resolve(undefined)));
  try {
    return await fill(
      request,
      (question) => Promise.race([terminal.question(question), ended]),
      (line) => process.stderr.write(`${line}\n`),
    );
  } finally {
    terminal.close();
  }
}

/** Fills in a form field by field; `ask` and `tell` talk to the person. */
export async function fill({ params }: InputRequest, ask: AskLine, tell: (line: string) => void): Promise<Answer> {
  const { message, url, requestedSchema } = params as Params;
  tell(`The tool asks: ${oneLine(message)}`);
  if (url !== undefined) tell(`Open this address: ${oneLine(url)}`);
  const choice = await ask(
    url === undefined ? 'Answer? [Y]es, [d]ecline, [c]ancel: ' : 'Done? [Y]es, [d]ecline, [c]ancel: ',
  );
  if (choice === undefined || /^c/i.test(choice.trim())) return { action: 'cancel' };
  if (/^(d|n)/i.test(choice.trim())) return { action: 'decline' };
  if (!requestedSchema) return { action: 'accept' };
  for (;;) {
    const content: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(requestedSchema.properties)) {
      const isNeeded = requestedSchema.required?.includes(name) === true;
      const said = await ask(`${labelOf(name, field, isNeeded)}: `);
      if (said === undefined) return { action: 'cancel' };
      const value = said.trim() === '' ? field.default : typedValue(field, said.trim());
      if (value !== undefined) content[name] = value;
    }
    const faults = await faultsOf(requestedSchema, content);
    if (faults.length === 0) return { action: 'accept', content };
    tell(`This does not fit: ${faults.join('; ')}`);
  }
}

async function faultsOf(schema: FormSchema, content: object): Promise<readonly string[]> {
  const verdict = await readSchema({ type: 'object', ...schema } as never, 'input', 'the form').check(content);
  return 'value' in verdict ? [] : verdict.faults;
}

function labelOf(name: string, field: Field, isNeeded: boolean): string {
  const choices = choicesOf(field).map((choice, index) => `${index + 1} ${choice.title}`);
  const about = [
    ...(field.description === undefined ? [] : [field.description]),
    ...(choices.length > 0
      ? [choices.join(', ')]
      : [field.type === 'boolean' ? 'yes or no' : (field.type ?? 'string')]),
    ...(field.type === 'array' ? ['several with commas'] : []),
    ...(field.default === undefined ? (isNeeded ? [] : ['optional']) : [`default ${JSON.stringify(field.default)}`]),
  ];
  return oneLine(`  ${field.title ?? name} (${about.join('; ')})`);
}

function choicesOf({ enum: values, oneOf, items }: Field): readonly Choice[] {
  const plain = (words: readonly string[]) => words.map((word) => ({ const: word, title: word }));
  return oneOf ?? items?.anyOf ?? plain(values ?? items?.enum ?? []);
}

/** What a person typed, as the type of the field; text that does not fit is left to the check of the form. */
function typedValue(field: Field, typed: string): unknown {
  const chosen = (word: string) => {
    const choices = choicesOf(field);
    const found = choices.find((choice) => choice.const === word || choice.title === word);
    return (found ?? choices[Number(word) - 1])?.const ?? word;
  };
  switch (field.type) {
    case 'boolean':
      return /^(y(es)?|true|1)$/i.test(typed) ? true : /^(no?|false|0)$/i.test(typed) ? false : typed;
    case 'number':
    case 'integer':
      return Number.isFinite(Number(typed)) ? Number(typed) : typed;
    case 'array':
      return typed.split(',').map((word) => chosen(word.trim()));
    default:
      return chosen(typed);
  }
}
