import { type Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { causeOf, failed, refused, tooLarge } from './fetch-errors.js';
import type { Lifeline } from './lifeline.js';
import type { Ask } from './redirect.js';

/** Of an answer's status line and headers. */
const MAX_HEADER_BYTES = 16_384;

/** For an address that is not the last of its name. */
const CONNECT_MS = 3_000;

interface ExchangeInit {
  readonly ask: Ask;
  /** One that was checked; the connection goes there and nowhere else. */
  readonly address: string;
  readonly isLastAddress: boolean;
  /** None: a connection of its own. */
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
      // After the answer's head, the body's reader hears of it.
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
    request.on('close', () => fail(broken('ECONNRESET')));
    request.end(body);
  });
}

function open({ ask, address, agent, ca }: ExchangeInit): ClientRequest {
  const { url, secure, host, port, isAddress } = ask.target;
  try {
    return (secure ? httpsRequest : httpRequest)({
      // An address needs no lookup, so nobody can answer it differently; the name is in Host, SNI and the certificate.
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
