import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { Allowance } from '../../system/process/allowance.js';
import type { Child } from '../../system/process/child.js';
import { readLines } from '../../system/process/lines.js';
import type { Stream } from './sdk.js';

type Message = Stream['readable'] extends ReadableStream<infer M> ? M : never;

/** Lines that are no messages, such as a banner, are skipped; a program that writes nothing else speaks no ACP. */
const MAX_RUBBISH = 1_000;

export interface ChildStream {
  readonly stream: Stream;
  /** Settles, with the reason, when nothing more can be read from the child. */
  readonly ended: Promise<EclipticError>;
}

/** JSON-RPC over a child's standard input and output, at a pace that leaves time for others. */
export function childStream(runtime: Runtime, child: Child, onMessage: () => void): ChildStream {
  const allowance = new Allowance(runtime);
  let rubbish = 0;
  let end!: (reason: EclipticError) => void;
  const ended = new Promise<EclipticError>((resolve) => {
    end = resolve;
  });
  const readable = new ReadableStream<Message>({
    start(controller) {
      const take = (line: string) => {
        const message = parse(line);
        if (message) {
          onMessage();
          controller.enqueue(message);
        } else if (line.trim() !== '' && ++rubbish > MAX_RUBBISH) {
          throw new EclipticError('INVALID_FRAME', `it wrote more than ${MAX_RUBBISH} lines that are no ACP messages`);
        }
        return allowance.spend(line.length, message && 'method' in message ? 1 : 0);
      };
      // It stays open at the end: whoever waits for an answer hears why there is none from the end of the process.
      readLines(child.stdout, take).then(
        () => end(new EclipticError('PROCESS_ENDED', 'it closed its output')),
        (error) => end(new EclipticError('INVALID_FRAME', describeError(error), {}, error)),
      );
    },
  });
  const writable = new WritableStream<Message>({
    write: (message) => child.write(`${JSON.stringify(message)}\n`),
  });
  return { stream: { readable, writable }, ended };
}

function parse(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    const isMessage = typeof value === 'object' && value !== null && 'jsonrpc' in value && value.jsonrpc === '2.0';
    return isMessage ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}
