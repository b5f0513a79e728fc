import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { EclipticError } from '../../runtime/errors.js';

/** Bytes of one request. */
export const MAX_BODY_BYTES = 4 * 1_048_576;

/** Reads a request to its end. One that is too large is refused before it is read on. */
export function readBody(request: IncomingMessage, maxBytes = MAX_BODY_BYTES): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = () => {
      reject(new EclipticError('PAYLOAD_TOO_LARGE', `a request may have ${maxBytes} bytes`, { maxBytes }));
      request.resume();
    };
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) return tooLarge();
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) {
        request.removeAllListeners('data');
        return tooLarge();
      }
      chunks.push(chunk);
    });
    request.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    request.on('error', (error) => reject(new EclipticError('CANCELLED', 'the caller went away', {}, error)));
    request.on('close', () => {
      if (!request.complete) reject(new EclipticError('CANCELLED', 'the caller went away'));
    });
  });
}

const JSON_TYPE = /^application\/([\w.-]+\+)?json\s*(;\s*charset\s*=\s*"?utf-?8"?\s*)?$/i;

/** Refuses a body that says that it is no plain JSON in UTF-8; one that says nothing is read. */
export function requireJsonBody(headers: IncomingHttpHeaders): void {
  const { 'content-type': type, 'content-encoding': encoding } = headers;
  if (type !== undefined && type !== 'application/json' && !JSON_TYPE.test(type)) {
    throw new EclipticError('UNSUPPORTED_MEDIA_TYPE', 'the body must be application/json in UTF-8', { type });
  }
  if (encoding !== undefined && encoding !== '' && encoding.toLowerCase() !== 'identity') {
    throw new EclipticError('UNSUPPORTED_MEDIA_TYPE', 'the body must not be encoded', { encoding });
  }
}
