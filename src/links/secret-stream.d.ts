/** The part of `@hyperswarm/secret-stream` that is used here; the package has no types of its own. */
declare module '@hyperswarm/secret-stream' {
  import type { Duplex } from 'node:stream';

  interface KeyPair {
    publicKey: Uint8Array;
    secretKey: Uint8Array;
  }

  // biome-ignore lint/style/noDefaultExport: the package has one
  export default class NoiseSecretStream {
    constructor(isInitiator: boolean, raw: Duplex, options: { keyPair: KeyPair });
    readonly isInitiator: boolean;
    readonly remotePublicKey: Uint8Array;
    readonly handshakeHash: Uint8Array;
    write(frame: Uint8Array): boolean;
    end(): void;
    destroy(error?: Error | null): void;
    pause(): void;
    resume(): void;
    on(event: 'open' | 'drain' | 'close', listener: () => void): this;
    on(event: 'data', listener: (frame: Uint8Array) => void): this;
    on(event: 'error', listener: (error: Error) => void): this;
  }
}
