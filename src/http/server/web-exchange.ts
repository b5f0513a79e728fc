import type { ServerResponse } from 'node:http';
import { drained } from './drained.js';
import type { Exchange } from './http-server.js';

/** A request as web APIs know it; its signal aborts when the caller goes away. */
export function toWebRequest({ request, response }: Exchange, body: Buffer | undefined): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    for (const one of Array.isArray(value) ? value : [value ?? '']) headers.append(name, one);
  }
  // A principal's token is for this node alone, and goes no further.
  headers.delete('authorization');
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const url = `http://${request.headers.host}${request.url}`;
  return new Request(url, {
    method: request.method ?? 'GET',
    headers,
    signal: gone.signal,
    ...(body && { body: new Uint8Array(body) }),
  });
}

/** Sends what a web API answered, no faster than the caller reads it. */
export async function answerWith(response: ServerResponse, answer: Response): Promise<void> {
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!answer.body) {
    response.end();
    return;
  }
  const reader = answer.body.getReader();
  response.on('close', () => void reader.cancel().catch(() => {}));
  response.flushHeaders();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!response.write(value)) await drained(response);
    }
  } catch {
    // The other side of the stream ended it; so does this.
  }
  response.end();
}
