import { isUtf8 } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import type { Task } from '../a2a/protocol/types.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Invocation } from './command.js';
import { readPayload } from './input.js';
import { usage } from './output.js';
import { TaskAnswer } from './task-answer.js';

interface GivenValues {
  readonly context?: string;
  readonly skill?: string;
  readonly timeout?: number;
  readonly input?: string;
  readonly attach?: readonly string[];
  readonly link?: readonly string[];
}

/** Files of a task travel within its message; larger ones are sent as objects, with a durable message. */
const MAX_FILE_BYTES = 700_000;

/** Gives an agent of the mesh a task, and prints its answer as it arrives. The task goes on without the command. */
export async function giveTask({
  values,
  words: [to, text],
  connect,
  output,
}: Invocation<[string, string?], GivenValues>): Promise<void> {
  const { context, skill, timeout: timeoutMs } = values;
  const files = await Promise.all((values.attach ?? []).map(filePart));
  const data = values.input === undefined ? [] : [{ data: await readPayload(values.input) }];
  const parts = [...data, ...files, ...(values.link ?? []).map((url) => ({ url }))];
  const answer = new TaskAnswer(output);
  const client = await connect();
  process.once('SIGINT', () => client.close());
  const params = { to, text, context, skill, timeoutMs, ...(parts.length > 0 && { parts }) };
  try {
    await client.call('task.send', params, (event) => answer.add(event));
  } catch (error) {
    answer.endLine();
    throw leftAlone(error as EclipticError, answer.task);
  }
  answer.end((id) => `answer with: ecliptic task answer ${id} TEXT`);
  if (!output.json && answer.task) answer.note(`to continue: --context ${answer.task.contextId}`);
}

async function filePart(file: string): Promise<Record<string, unknown>> {
  const filename = basename(file);
  const bytes = await readFile(file).catch((error) => {
    throw usage(`${file} cannot be read: ${describeError(error)}`);
  });
  if (bytes.length > MAX_FILE_BYTES) {
    throw new EclipticError('PAYLOAD_TOO_LARGE', `${file} is larger than ${MAX_FILE_BYTES} bytes; give a --link to it`);
  }
  return { raw: bytes.toString('base64'), filename, mediaType: mediaTypeOf(filename, bytes) };
}

const IMAGES: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.svg': 'image/svg+xml',
};

function mediaTypeOf(name: string, bytes: Buffer): string {
  return IMAGES[extname(name).toLowerCase()] ?? (isUtf8(bytes) ? 'text/plain' : 'application/octet-stream');
}

/** The task belongs to the node, and continues without a follower. */
function leftAlone(error: EclipticError, task: Task | undefined): EclipticError {
  const { code, details } = error;
  if (!task || (code !== 'CANCELLED' && code !== 'NO_NODE')) return error;
  const { id } = task;
  const how = `follow it with: ecliptic task show ${id} --follow — stop it with: ecliptic task cancel ${id}`;
  const why = code === 'CANCELLED' ? 'the task continues in the node' : 'the node stopped';
  return new EclipticError(code, `${why}; ${how}`, { ...details, taskId: id });
}
