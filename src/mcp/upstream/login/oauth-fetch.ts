import type { FetchLike } from '@modelcontextprotocol/client';
import type { Runtime } from '../../../runtime/runtime.js';
import { addressKind, parseIpAddress } from '../../../system/fetch/address.js';
import { guardedFetch } from '../../../system/fetch/guarded-fetch.js';
import { parseTarget } from '../../../system/fetch/target.js';
import type { Redactor } from '../../../system/secrets/secret.js';

const NO_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/**
 * Fetches what a server's login leads to. Its addresses are the server's word, so one on the Internet leads nowhere
 * inside; and nothing that the server itself is sent goes there.
 */
export function oauthFetch(runtime: Runtime, server: URL, redactor: Redactor): FetchLike {
  const allowPrivate = isInside(server);
  return async (url, init = {}) => {
    const method = init.method ?? 'GET';
    const answer = await guardedFetch(runtime, url, {
      method,
      headers: Object.fromEntries(new Headers(init.headers)),
      ...(init.body != null && { body: String(init.body) }),
      ...(init.signal && { signal: init.signal }),
      // A code or a secret is for the one who was asked.
      ...(method !== 'GET' && { redirects: 0 }),
      allowPrivate,
    });
    const { status } = answer;
    const headers = new Headers([...answer.headers]);
    // What an authorization server says of a failure is shown; it may repeat what it was sent.
    const body = status < 400 ? answer.body : redactor.clean(answer.body.toString());
    return new Response(NO_BODY.has(status) ? null : new Uint8Array(Buffer.from(body)), { status, headers });
  };
}

function isInside(server: URL): boolean {
  const { host, isLocalName } = parseTarget(server);
  const address = parseIpAddress(host);
  return isLocalName || (address !== undefined && addressKind(address) !== undefined);
}
