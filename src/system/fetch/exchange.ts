import {
  type Agent,
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { causeOf, failed, refused, tooLarge } from './fetch-errors.js';
import type { Lifeline } from './lifeline.js';
import { parseTarget, type Target } from './target.js';

/** The request of one hop. */
export interface Ask {
  readonly target: Target;
  readonly method: string;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer | undefined;
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Headers that another origin may see. Any other header may be a credential. */
const HARMLESS: ReadonlySet<string> = new Set([
  'a2a-extensions',
  'a2a-version',
  'accept',
  'accept-language',
  'cache-control',
  'content-language',
  'content-type',
  'user-agent',
]);

/** The request of the next hop where the answer is a redirect. The rules are stricter than those of the Fetch standard. */
export function redirected(
  ask: Ask,
  status: number,
  location: string | undefined,
  ports: readonly number[] | undefined,
): Ask | undefined {
  if (!REDIRECTS.has(status) || location === undefined) return undefined;
  const from = ask.target;
  const target = parseTarget(location, from, ports);
  const { origin } = target.url;
  if (from.secure && !target.secure) {
    throw refused('downgrade', `${from.url.origin} redirects from https to http`, { origin });
  }
  const toGet =
    (status === 303 && ask.method !== 'GET' && ask.method !== 'HEAD') || (status < 303 && ask.method === 'POST');
  const kept = [...ask.headers].filter(
    ([name]) => (origin === from.url.origin || HARMLESS.has(name)) && !(toGet && name.startsWith('content-')),
  );
  return {
    target,
    method: toGet ? 'GET' : ask.method,
    headers: new Map(kept),
    body: toGet ? undefined : ask.body,
  };
}

interface ConnectionsInit {
  /** Connections to one address and port; further fetches wait, within their time limit. Default 64. */
  maxPerAddress?: number;
  /** Idle connections to one address and port that are kept. Default 4. */
  maxFree?: number;
  /** How long a connection is kept for the next fetch. Default 4 s, less than most servers keep theirs. */
  idleMs?: number;
}

/**
 * Connections that are kept for further fetches. They are keyed by address, never by name: each fetch is checked again, and
 * can only get a connection to an address that it may use.
 */
export class Connections {
  readonly #plain: HttpAgent;
  readonly #secure: HttpsAgent;

  constructor(init: ConnectionsInit = {}) {
    const options = {
      keepAlive: true,
      maxSockets: init.maxPerAddress ?? 64,
      maxFreeSockets: init.maxFree ?? 4,
      timeout: init.idleMs ?? 4_000,
    };
    this.#plain = new HttpAgent(options);
    this.#secure = new HttpsAgent(options);
  }

  agent(secure: boolean): HttpAgent {
    return secure ? this.#secure : this.#plain;
  }

  close(): void {
    this.#plain.destroy();
    this.#secure.destroy();
  }
}

const MAX_HEADER_BYTES = 16_384;

/** Connect timeout of all but the last address of a name. */
const CONNECT_MS = 3_000;

interface ExchangeInit {
  readonly ask: Ask;
  /** A checked address; the connection goes there and nowhere else. */
  readonly address: string;
  readonly isLastAddress: boolean;
  /** Undefined: a connection for this request only. */
  readonly agent: Agent | undefined;
  /** Certificates to trust in place of the system's. */
  readonly ca: string | readonly string[] | undefined;
}

/** Sends one request and waits for the head of its answer. */
export function exchange(runtime: Runtime, init: ExchangeInit, lifeline: Lifeline): Promise<IncomingMessage> {
  const { target, body } = init.ask;
  const { origin } = target.url;
  return new Promise((resolve, reject) => {
    if (lifeline.reason) throw lifeline.reason;
    const request = open(init);
    let sent = false;
    let isOver = false;
    const attempt = init.isLastAddress ? undefined : runtime.setTimer(() => fail(broken('ETIMEDOUT')), CONNECT_MS);
    const off = lifeline.onEnd((reason) => fail(reason));

    const end = () => {
      isOver = true;
      attempt?.cancel();
      off();
    };
    const fail = (error: EclipticError) => {
      // After the head of the answer, the reader of the body gets the error.
      if (isOver) return;
      end();
      request.destroy();
      reject(error);
    };
    const broken = (cause: string) => failed({ origin, cause, sent, reused: request.reusedSocket });
    const onConnected = () => {
      sent = true;
      attempt?.cancel();
    };

    request.on('socket', (socket) => {
      if (request.reusedSocket) onConnected();
      else socket.once(target.secure ? 'secureConnect' : 'connect', onConnected);
    });
    request.on('response', (response) => {
      if (isOver) return;
      end();
      resolve(response);
    });
    request.on('error', (error) => {
      const cause = causeOf(error);
      fail(
        cause === 'HPE_HEADER_OVERFLOW'
          ? tooLarge(`the head of the answer of ${origin}`, MAX_HEADER_BYTES)
          : broken(cause),
      );
    });
    request.on('close', () => {
      // An error that nothing gets would still cost its stack trace.
      if (!isOver) fail(broken('ECONNRESET'));
    });
    request.end(body);
  });
}

function open({ ask, address, agent, ca }: ExchangeInit): ClientRequest {
  const { url, secure, host, port, isAddress } = ask.target;
  try {
    return (secure ? httpsRequest : httpRequest)({
      // An address needs no second lookup; the name is in Host, SNI and the certificate.
      host: address,
      servername: isAddress ? '' : host,
      port,
      path: url.pathname + url.search,
      method: ask.method,
      headers: {
        host: url.host,
        'user-agent': 'ecliptic',
        ...Object.fromEntries(ask.headers),
        'accept-encoding': 'identity',
      },
      agent: agent ?? false,
      maxHeaderSize: MAX_HEADER_BYTES,
      ...(ca === undefined ? {} : { ca: [...(typeof ca === 'string' ? [ca] : ca)] }),
    });
  } catch {
    throw refused('header', 'a header cannot be sent as it is', { origin: url.origin });
  }
}
