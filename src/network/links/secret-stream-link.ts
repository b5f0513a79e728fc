import type NoiseSecretStream from '@hyperswarm/secret-stream';
import type { Runtime } from '../../runtime/runtime.js';
import type { Link, LinkKind, LinkListener } from './link.js';

/** Time that the last frames of a closing link get. */
const CLOSE_MS = 1_000;
/** Bytes that may wait in the stream, whose own mark is lower than what a good link has under way. */
const HIGH_WATER_BYTES = 1_048_576;

/** A link over an open Noise secret stream, which encrypts and authenticates both directions. */
export class SecretStreamLink implements Link {
  readonly kind: LinkKind;
  readonly remoteKey: string;
  readonly initiator: boolean;
  readonly handshake: Uint8Array;
  readonly reliable = true;
  readonly #runtime: Runtime;
  readonly #stream: NoiseSecretStream;
  #listener: LinkListener | undefined;
  #open = true;
  #closed = false;
  #reason = 'the other end closed it';
  #tampered = false;
  /** Bytes given to the stream since it last had room. */
  #waiting = 0;

  constructor(runtime: Runtime, kind: LinkKind, stream: NoiseSecretStream) {
    this.kind = kind;
    this.#runtime = runtime;
    this.#stream = stream;
    this.remoteKey = Buffer.from(stream.remotePublicKey).toString('hex');
    this.initiator = stream.isInitiator;
    this.handshake = Uint8Array.from(stream.handshakeHash);
    stream.pause();
    stream.on('error', (error) => {
      if (!this.#open) return;
      this.#reason = error.message;
      this.#tampered = isTampering(error);
    });
    // A stream that the other end has ended stays half open until this end ends it too.
    stream.on('end', () => this.#finish());
    stream.on('close', () => this.#onClose());
  }

  send(frame: Uint8Array): boolean {
    if (!this.#open) return false;
    this.#waiting = this.#stream.write(frame) ? 0 : this.#waiting + frame.byteLength;
    return this.#waiting < HIGH_WATER_BYTES;
  }

  listen(listener: LinkListener): void {
    if (!this.#listener) {
      this.#stream.on('data', (frame) => {
        if (this.#open) this.#listener!.onFrame(frame);
      });
      this.#stream.on('drain', () => {
        this.#waiting = 0;
        this.#listener!.onDrain();
      });
      this.#stream.resume();
    }
    this.#listener = listener;
    if (this.#closed) listener.onClose(this.#reason, this.#tampered);
  }

  pause(): void {
    if (this.#open) this.#stream.pause();
  }

  resume(): void {
    if (this.#open && this.#listener) this.#stream.resume();
  }

  close(): void {
    if (!this.#open) return;
    this.#reason = 'this end closed it';
    this.#finish();
    // The end is seen only when everything that the other side sent before it has been read.
    this.#stream.resume();
  }

  #finish(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#stream.end();
    const timer = this.#runtime.setTimer(() => this.#stream.destroy(), CLOSE_MS);
    this.#stream.on('close', () => timer.cancel());
  }

  #onClose(): void {
    this.#open = false;
    this.#closed = true;
    this.#listener?.onClose(this.#reason, this.#tampered);
  }
}

/** Does this error mean that the bytes on the wire were not the other end's? */
function isTampering(error: Error & { code?: string }): boolean {
  return error.code?.startsWith('WS_ERR_') === true || /^(pull failed|Invalid (message|header))/.test(error.message);
}
