/** The parts of Hyperswarm's packages that are used here; they have no types of their own. */
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
    on(event: 'handshake' | 'open' | 'drain' | 'end' | 'close', listener: () => void): this;
    on(event: 'data', listener: (frame: Uint8Array) => void): this;
    on(event: 'error', listener: (error: Error) => void): this;
    once(event: 'drain', listener: () => void): this;
  }
}

declare module 'hyperdht' {
  import type NoiseSecretStream from '@hyperswarm/secret-stream';
  import type { KeyPair } from '@hyperswarm/secret-stream';

  interface Address {
    host: string;
    port: number;
  }

  interface DHTOptions {
    bootstrap?: readonly (string | Address)[];
    host?: string;
    port?: number;
    ephemeral?: boolean;
    firewalled?: boolean;
  }

  // biome-ignore lint/style/noDefaultExport: the package has one
  export default class DHT {
    constructor(options: DHTOptions);
    static keyPair(): KeyPair;
    readonly bootstrapped: boolean;
    readonly online: boolean;
    fullyBootstrapped(): Promise<void>;
    address(): Address;
    /** The other nodes it knows. */
    toArray(): Address[];
    connect(key: Uint8Array, options?: { keyPair?: KeyPair }): NoiseSecretStream;
    createServer(onConnection: (stream: NoiseSecretStream) => void): { listen(keyPair: KeyPair): Promise<void> };
    destroy(options?: { force?: boolean }): Promise<void>;
  }
}

declare module 'hyperswarm' {
  import type NoiseSecretStream from '@hyperswarm/secret-stream';
  import type { KeyPair } from '@hyperswarm/secret-stream';
  import type DHT from 'hyperdht';

  interface PeerDiscoverySession {
    flushed(): Promise<boolean>;
    refresh(options: { client: boolean; server: boolean }): Promise<void>;
    destroy(): Promise<void>;
  }

  // biome-ignore lint/style/noDefaultExport: the package has one
  export default class Hyperswarm {
    constructor(options: { dht: DHT; keyPair: KeyPair; maxPeers?: number; maxParallel?: number });
    join(topic: Uint8Array, options: { client: boolean; server: boolean }): PeerDiscoverySession;
    on(event: 'connection', listener: (stream: NoiseSecretStream) => void): this;
    destroy(options?: { force?: boolean }): Promise<void>;
  }
}
