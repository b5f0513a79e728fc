import { z } from 'zod';
import type { Network } from '../../src/network/peers/network.js';
import type { PeerProtocol } from '../../src/network/peers/protocol.js';
import { type Item, parsed } from '../../src/network/peers/wire.js';

/** A whole protocol between nodes in one file: it counts, and records received items. */
export class CountingProtocol implements PeerProtocol {
  readonly kinds = ['count'];
  readonly numbers: number[] = [];
  readonly events: string[] = [];
  readonly #network: Network;

  constructor(network: Network) {
    this.#network = network;
  }

  send(node: string, number: number): Promise<void> {
    return this.#network.peers.sendConfirmed(node, JSON.stringify(['count', number]));
  }

  take(_node: string, [, number]: Item): void {
    this.numbers.push(parsed(z.int(), number));
  }

  began(): void {
    this.events.push('began');
  }

  connected(): void {
    this.events.push('connected');
  }

  interrupted(): void {
    this.events.push('interrupted');
  }

  ended(): void {
    this.events.push('ended');
  }
}
