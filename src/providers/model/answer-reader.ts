import { EclipticError } from '../../runtime/errors.js';
import type { ChatAnswer, TokenCount, ToolCall } from './chat-types.js';

/** Characters of one answer, so that its result fits into an envelope. */
const MAX_TEXT_CHARS = 524_288;
/** Characters of the arguments of all tool calls of one answer. */
const MAX_ARGUMENT_CHARS = 1_048_576;
const MAX_TOOL_CALLS = 64;

interface PartialCall {
  id: string;
  name: string;
  arguments: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** Puts an answer together from the chunks of a stream, or from one whole completion. */
export class AnswerReader {
  readonly #onText: (text: string) => void;
  readonly #calls: PartialCall[] = [];
  readonly #callAt = new Map<number, PartialCall>();
  #text = '';
  #argumentChars = 0;
  #hasChoice = false;
  #finishReason: string | undefined;
  #tokens: TokenCount | undefined;

  constructor(onText: (text: string) => void) {
    this.#onText = onText;
  }

  /** The endpoint has answered at all. */
  get hasChoice(): boolean {
    return this.#hasChoice;
  }

  /** The model has said why it stopped. Only the count of tokens may follow. */
  get isFinished(): boolean {
    return this.#finishReason !== undefined;
  }

  /** Takes the JSON of one chunk, or of a whole completion. */
  take(json: string): void {
    const { error, usage, choices } = parse(json);
    if (error) throw reportedFault(error);
    if (isFields(usage)) this.#tokens = tokensIn(usage) ?? this.#tokens;
    const choice = Array.isArray(choices) ? choices[0] : undefined;
    if (!isFields(choice)) return;
    this.#hasChoice = true;
    const { delta, message, finish_reason: reason } = choice;
    const said = isFields(delta) ? delta : message;
    if (isFields(said)) this.#add(said);
    if (typeof reason === 'string' && reason !== '') this.#finishReason = reason;
  }

  get answer(): ChatAnswer {
    const ids = new Set<string>();
    const toolCalls = this.#calls.map(({ id, name, arguments: given }, index): ToolCall => {
      // Some servers leave out the id, which ties the result to the call, or use one twice.
      const own = id === '' || ids.has(id) ? `call_${index}` : id;
      ids.add(own);
      return { id: own, type: 'function', function: { name, arguments: given || '{}' } };
    });
    const finishReason = this.#finishReason ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop');
    return { text: this.#text, toolCalls, finishReason, tokens: this.#tokens };
  }

  #add({ content, tool_calls: calls }: Fields): void {
    if (typeof content === 'string' && content !== '') {
      this.#text += content;
      if (this.#text.length > MAX_TEXT_CHARS) throw tooLong('answer', MAX_TEXT_CHARS);
      this.#onText(content);
    }
    if (!Array.isArray(calls)) return;
    for (const [place, call] of calls.entries()) if (isFields(call)) this.#addCall(call, place);
  }

  #addCall({ index, id, function: about }: Fields, place: number): void {
    const call = this.#callOf(typeof index === 'number' ? index : place, typeof id === 'string' ? id : '');
    if (!isFields(about)) return;
    // Some servers repeat the name with each piece.
    if (typeof about.name === 'string' && call.name === '') call.name = about.name;
    if (about.arguments === undefined || about.arguments === null) return;
    // Some servers send arguments as an object.
    const given = typeof about.arguments === 'string' ? about.arguments : JSON.stringify(about.arguments);
    this.#argumentChars += given.length;
    if (this.#argumentChars > MAX_ARGUMENT_CHARS) throw tooLong('list of tool arguments', MAX_ARGUMENT_CHARS);
    call.arguments += given;
  }

  /** A call comes in pieces; those of one call have the same index. Some servers give all calls one index, but ids. */
  #callOf(index: number, id: string): PartialCall {
    const known = this.#callAt.get(index);
    if (known && (id === '' || known.id === '' || known.id === id)) {
      known.id ||= id;
      return known;
    }
    if (this.#calls.length === MAX_TOOL_CALLS) throw tooLong('list of tool calls', MAX_TOOL_CALLS);
    const call = { id, name: '', arguments: '' };
    this.#calls.push(call);
    this.#callAt.set(index, call);
    return call;
  }
}

export function protocolFault(what: string): EclipticError {
  return new EclipticError('PROVIDER_PROTOCOL_MISMATCH', `the model endpoint does not answer as expected: ${what}`);
}

/** A failure that the endpoint reports in the middle of an answer. */
function reportedFault(error: unknown): EclipticError {
  const { code } = (isFields(error) ? error : {}) as Fields;
  const status = typeof code === 'number' ? { status: code } : {};
  return new EclipticError('REMOTE_FAILED', `the model endpoint reports: ${messageOf(error)}`, status);
}

function tooLong(what: string, most: number): EclipticError {
  return new EclipticError('PROVIDER_EXECUTE_FAILED', `the model's ${what} is longer than ${most}`);
}

function parse(json: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw protocolFault('a part of the answer is no JSON');
  }
  if (isFields(value)) return value;
  throw protocolFault('a part of the answer is no object');
}

function tokensIn({ prompt_tokens: input, completion_tokens: output }: Fields): TokenCount | undefined {
  if (typeof input !== 'number' && typeof output !== 'number') return undefined;
  return { input: countOf(input), output: countOf(output) };
}

function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
}

/** The message of an error in the usual form: `{ message }`, or a text. */
export function messageOf(error: unknown): string {
  if (typeof error === 'string') return error.slice(0, MAX_MESSAGE_CHARS);
  const { message } = (isFields(error) ? error : {}) as Fields;
  return typeof message === 'string' ? message.slice(0, MAX_MESSAGE_CHARS) : 'an error without a message';
}

const MAX_MESSAGE_CHARS = 500;

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
