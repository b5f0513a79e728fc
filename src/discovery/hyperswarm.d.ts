/** The parts of `hyperswarm` and `hyperdht` that are used here; the packages have no types of their own. */
declare module 'hyperdht' {
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
    readonly bootstrapped: boolean;
    readonly online: boolean;
    fullyBootstrapped(): Promise<void>;
    address(): Address;
    destroy(options?: { force?: boolean }): Promise<void>;
    on(event: 'close', listener: () => void): this;
  }
}

declare module 'hyperswarm' {
  import type NoiseSecretStream from '@hyperswarm/secret-stream';
  import type DHT from 'hyperdht';

  interface PeerDiscoverySession {
    flushed(): Promise<boolean>;
    refresh(options: { client: boolean; server: boolean }): Promise<void>;
    destroy(): Promise<void>;
  }

  // biome-ignore lint/style/noDefaultExport: the package has one
  export default class Hyperswarm {
    constructor(options: {
      dht: DHT;
      keyPair: { publicKey: Uint8Array; secretKey: Uint8Array };
      maxPeers?: number;
      maxParallel?: number;
    });
    join(topic: Uint8Array, options: { client: boolean; server: boolean }): PeerDiscoverySession;
    on(event: 'connection', listener: (stream: NoiseSecretStream) => void): this;
    destroy(options?: { force?: boolean }): Promise<void>;
  }
}
