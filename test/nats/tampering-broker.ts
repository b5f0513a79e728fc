import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** What the proxy does to a message on its way to a node. */
export const TAMPERINGS = ['flip', 'repeat', 'swap', 'replay', 'rename', 'mix'] as const;
export type Tampering = (typeof TAMPERINGS)[number];

/** A message as the server sent it: `MSG` or `HMSG`, subject, subscription and so on, then headers and payload. */
interface Delivered {
  readonly words: readonly string[];
  readonly body: Buffer;
}

const CRLF = Buffer.from('\r\n');
const MAX_REMEMBERED = 2_000;
const NODE_KEY = /[0-9a-f]{64}/g;
/** Every so many messages are tampered with, so that some of the others get through. */
const EVERY = 3;

/** A way to a NATS server that tampers with the messages that the server sends, as a rogue server would. */
export class TamperingBroker {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Messages of before, by the subscription's connection. */
  readonly #remembered: Delivered[] = [];
  /** One of these is done to a message. */
  tamperings: readonly Tampering[] = [];
  /** Which subjects are tampered with. */
  subjects = /./;
  /** How many messages were tampered with. */
  done = 0;
  #count = 0;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (client) => this.#accept(client, target));
  }

  static async start(target: number): Promise<TamperingBroker> {
    const server = createServer({ noDelay: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TamperingBroker(server, target);
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #accept(client: Socket, target: number): void {
    const server = connect({ port: target, host: '127.0.0.1', noDelay: true });
    const reader = new ServerReader(
      (bytes) => client.write(bytes),
      this.#tamperer((bytes) => client.write(bytes)),
    );
    client.on('data', (data) => server.write(data));
    server.on('data', (data) => reader.take(data));
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one);
      one.on('error', () => {});
      one.on('close', () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
  }

  /** Passes one connection's messages on. */
  #tamperer(send: (bytes: Buffer) => void): (message: Delivered) => void {
    let held: Delivered | undefined;
    return (message) => {
      const tampering = random(this.tamperings);
      this.#remembered.push(message);
      if (this.#remembered.length > MAX_REMEMBERED) this.#remembered.shift();
      const isDue = tampering && this.subjects.test(message.words[1]!) && ++this.#count % EVERY === 0;
      if (held) {
        send(encode(message));
        send(encode(held));
        held = undefined;
        return;
      }
      if (!isDue) return send(encode(message));
      this.done++;
      if (tampering === 'swap') held = message;
      else for (const sent of this.#tampered(tampering, message)) send(encode(sent));
    };
  }

  #tampered(tampering: Exclude<Tampering, 'swap'>, message: Delivered): Delivered[] {
    const { words, body } = message;
    const all = this.#remembered.filter(({ words: [kind, subject] }) => {
      return kind === words[0] && this.subjects.test(subject!);
    });
    const other = random(all.filter(({ words: [, subject] }) => subject !== words[1]));
    switch (tampering) {
      case 'flip':
        return [{ words, body: flipped(words, body) }];
      case 'repeat':
        return [message, message];
      // An old message with the new one's place in the stream, before it.
      case 'replay': {
        const old = random(all);
        const [, , ...rest] = words;
        return old ? [placed([words[0]!, old.words[1]!, ...rest], old), message] : [message];
      }
      // Another message's content under this one's subject.
      case 'mix':
        return other ? [placed(words, other), message] : [message];
      // This message's content under another node's name.
      case 'rename': {
        const [own] = words[1]!.match(NODE_KEY)?.slice(-1) ?? [];
        const [stranger] = other?.words[1]?.match(NODE_KEY)?.slice(-1) ?? [];
        if (own === undefined || stranger === undefined) return [message];
        const renamed = words[1]!.replace(new RegExp(`${own}$`), stranger);
        return [{ words: [words[0]!, renamed, ...words.slice(2)], body }, message];
      }
    }
  }
}

function random<T>(list: readonly T[]): T | undefined {
  return list[Math.floor(Math.random() * list.length)];
}

/** A message's content at another one's place: its subject, subscription and reply subject, which has the sequence. */
function placed([kind, ...words]: readonly string[], { words: from, body }: Delivered): Delivered {
  const sizes = kind === 'HMSG' ? 2 : 1;
  return { words: [kind!, ...words.slice(0, -sizes), ...from.slice(-sizes)], body };
}

/** One bit of the payload is another; headers are text of the client, which has its own tests. */
function flipped(words: readonly string[], body: Buffer): Buffer {
  const from = words[0] === 'HMSG' ? Number(words.at(-2)) : 0;
  if (body.length === from) return body;
  const copy = Buffer.from(body);
  const at = from + Math.floor(Math.random() * (body.length - from));
  copy[at]! ^= 1 << Math.floor(Math.random() * 8);
  return copy;
}

function encode({ words, body }: Delivered): Buffer {
  return Buffer.concat([Buffer.from(words.join(' ')), CRLF, body, CRLF]);
}

/** Takes what a server sends apart: messages, and all else as it is. */
class ServerReader {
  readonly #pass: (bytes: Buffer) => void;
  readonly #onMessage: (message: Delivered) => void;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(pass: (bytes: Buffer) => void, onMessage: (message: Delivered) => void) {
    this.#pass = pass;
    this.#onMessage = onMessage;
  }

  take(data: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? data : Buffer.concat([this.#bytes, data]);
    for (;;) {
      const end = this.#bytes.indexOf(CRLF);
      if (end < 0) return;
      const words = this.#bytes.toString('latin1', 0, end).split(/\s+/);
      const isMessage = words[0] === 'MSG' || words[0] === 'HMSG';
      const from = end + CRLF.length;
      const size = isMessage ? Number(words.at(-1)) + CRLF.length : 0;
      if (this.#bytes.length < from + size) return;
      if (isMessage) this.#onMessage({ words, body: this.#bytes.subarray(from, from + size - CRLF.length) });
      else this.#pass(this.#bytes.subarray(0, from));
      this.#bytes = this.#bytes.subarray(from + size);
    }
  }
}
