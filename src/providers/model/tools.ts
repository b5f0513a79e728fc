import { z } from 'zod';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { CheckOptions } from '../../system/approvals/action-gate.js';
import type { Approval } from '../../system/approvals/approval-queue.js';
import type { ToolSchema } from './chat-types.js';

/** What a tool may use while it runs. */
export interface ToolContext {
  readonly correlationId: string;
  readonly signal: AbortSignal;
  /** Told when the tool begins to wait for a decision of the owner; without an approval, when that is over. */
  readonly onDecision: (approval: Approval | undefined) => void;
  /** Asks the caller of the task. Undefined where the caller takes no questions. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
}

/** Asks for a ruling with these options. While that waits for the owner, the time limits of the work stand still. */
export async function ruled<T>(
  { correlationId, signal, onDecision }: ToolContext,
  ask: (options: Pick<CheckOptions, 'correlationId' | 'signal' | 'onWaiting'>) => Promise<T>,
): Promise<T> {
  let asked = false;
  const onWaiting = (approval: Approval) => {
    asked = true;
    onDecision(approval);
  };
  try {
    return await ask({ correlationId, signal, onWaiting });
  } finally {
    if (asked) onDecision(undefined);
  }
}

/** A tool that a model may call. Its result is data: the loop puts it into a fence. */
export interface ModelTool extends ToolSchema {
  /** Its result has to reach the model unchanged, for example to be edited. */
  readonly isVerbatim: boolean;
  /** The call in a few words, for people. */
  summary(args: Readonly<Record<string, unknown>>): string;
  run(args: Readonly<Record<string, unknown>>, context: ToolContext): Promise<string>;
}

interface ToolInit<S extends z.ZodObject> {
  readonly name: string;
  readonly description: string;
  readonly arguments: S;
  readonly isVerbatim?: boolean;
  readonly summary?: (args: z.output<S>) => string;
  run(args: z.output<S>, context: ToolContext): Promise<string> | string;
}

function parametersOf(schema: z.ZodObject): ModelTool['parameters'] {
  const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: 'input' });
  return parameters;
}

/** Makes a tool whose arguments are checked before it runs. */
export function modelTool<S extends z.ZodObject>({ arguments: schema, ...init }: ToolInit<S>): ModelTool {
  let known: ModelTool['parameters'] | undefined;
  return {
    name: init.name,
    description: init.description,
    // Made with the first use: a node without models needs none.
    get parameters() {
      known ??= parametersOf(schema);
      return known;
    },
    isVerbatim: init.isVerbatim ?? false,
    summary: (args) => {
      const { success, data } = schema.safeParse(args);
      const about = success && init.summary ? ` ${init.summary(data as z.output<S>)}` : '';
      return `${init.name}${about}`;
    },
    async run(args, context) {
      const { success, data, error } = schema.safeParse(args);
      if (success) return init.run(data as z.output<S>, context);
      const faults = error.issues.map(({ path, message }) => `${path.join('.') || 'the arguments'}: ${message}`);
      throw new EclipticError('INVALID_ARGUMENTS', `${init.name} was called wrongly: ${faults.join('; ')}`, { faults });
    },
  };
}

/** The model says that it cannot do the task: the task has failed. */
class GivenUp extends EclipticError {
  constructor(reason: string) {
    super('PROVIDER_EXECUTE_FAILED', `the model gave the task up: ${reason}`);
  }
}

export const giveUpTool = modelTool({
  name: 'give_up',
  description: 'Ends the task as failed. Call it if you cannot do the task.',
  arguments: z.object({ reason: z.string().min(1).max(4_000) }),
  run({ reason }) {
    throw new GivenUp(reason);
  },
});

/** The result of a tool call as the model sees it; `isFault` where the call itself was wrong. */
export interface ToolResult {
  readonly text: string;
  readonly isFault: boolean;
  readonly isVerbatim: boolean;
}

/** Runs a call. Errors become text, so that the model can react; only the end of the task is thrown. */
export async function runTool(
  tools: readonly ModelTool[],
  name: string,
  given: string,
  context: ToolContext,
): Promise<ToolResult> {
  const tool = tools.find((one) => one.name === name);
  if (!tool) {
    const names = tools.map((one) => one.name).join(', ') || 'none';
    return {
      text: `Error TOOL_NOT_FOUND: there is no tool "${name.slice(0, 100)}"; there are: ${names}`,
      isFault: true,
      isVerbatim: false,
    };
  }
  const { isVerbatim } = tool;
  try {
    return { text: await tool.run(readArguments(name, given), context), isFault: false, isVerbatim };
  } catch (error) {
    if (context.signal.aborted || error instanceof GivenUp) throw context.signal.reason ?? error;
    const code = error instanceof EclipticError ? error.code : 'HANDLER_FAILED';
    return { text: `Error ${code}: ${describeError(error)}`, isFault: code === 'INVALID_ARGUMENTS', isVerbatim: false };
  }
}

function readArguments(name: string, given: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(given);
  } catch {
    throw new EclipticError('INVALID_ARGUMENTS', `the arguments of ${name} are no JSON`);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new EclipticError('INVALID_ARGUMENTS', `the arguments of ${name} are no JSON object`);
}
