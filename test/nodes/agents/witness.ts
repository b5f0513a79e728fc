import { randomUUID } from 'node:crypto';
import type { A2AChannel, A2AEnvelope, Agent, EclipticError } from '../../../src/index.js';

/** Its requests. */
export type Order =
  /** Returns the received messages. */
  | { do: 'recall' }
  /** Stream that many numbers. */
  | { do: 'count'; to: number }
  /** Send numbers to an agent, as messages and over a channel, until told to finish. */
  | { do: 'begin'; to: string; everyMs: number }
  /** How does it go? */
  | { do: 'report' }
  /** Stop sending, and return the outcome of every number once all have settled. */
  | { do: 'finish' }
  | { do: 'open-channel'; to: string };

/** The received messages, in order of arrival. */
export interface Memory {
  readonly notified: unknown[];
  readonly channelled: unknown[];
  readonly streamed: unknown[];
  /** The transports of the channels that were opened to it. */
  readonly transports: string[];
}

/** How far it has come. */
export interface Progress {
  readonly sent: number;
  /** The number of the latest message that was delivered; -1 while there is none. */
  readonly delivered: number;
  /** The messages that wait on the channel. */
  readonly waiting: number;
  readonly status: string;
}

/** The state of each sent message, by number: `delivered`, `pending`, or the error's code, with its outcome if any. */
export interface Flight {
  readonly sent: string[];
  readonly channelled: string[];
  /** Every status of its channel, in order. */
  readonly statuses: string[];
  readonly transport: string;
}

/** An agent that records received messages, and sends on demand. */
export function setup(agent: Agent): void {
  const memory: Memory = { notified: [], channelled: [], streamed: [], transports: [] };
  let pilot: Pilot | undefined;
  agent.onNotification(({ payload }) => void memory.notified.push(payload));
  agent.onStream(async (stream) => {
    for await (const chunk of stream) memory.streamed.push(chunk);
  });
  agent.onChannel((channel) => {
    memory.transports.push(channel.transport);
    channel.onMessage(({ payload }) => void memory.channelled.push(payload));
    return true;
  });
  agent.onRequest(async ({ payload }) => {
    const order = payload as Order;
    switch (order.do) {
      case 'recall':
        return memory;
      case 'count':
        return count(order.to);
      case 'begin':
        pilot = new Pilot(agent, await agent.openChannel(order.to), order.to, order.everyMs);
        return null;
      case 'report':
        return pilot?.progress ?? null;
      case 'finish':
        return pilot?.finish() ?? null;
      case 'open-channel': {
        const channel = await agent.openChannel(order.to);
        await channel.send(envelope(channel, 'hello'));
        return channel.transport;
      }
    }
  });
}

/** An envelope for the other end of a channel. */
export function envelope(channel: A2AChannel, payload: unknown): A2AEnvelope {
  return {
    id: randomUUID(),
    schemaVersion: 1,
    sender: channel.localAgentId,
    recipient: channel.remoteAgentId,
    type: 'notification',
    timestamp: Date.now(),
    payload,
  };
}

async function* count(to: number): AsyncGenerator<number> {
  for (let number = 1; number <= to; number++) yield number;
}

class Pilot {
  readonly flight: Flight;
  readonly #timer: NodeJS.Timeout;
  readonly #settled: Promise<void>[] = [];

  constructor(agent: Agent, channel: A2AChannel, to: string, everyMs: number) {
    this.flight = { sent: [], channelled: [], statuses: [channel.status], transport: channel.transport };
    channel.onStatus((status) => this.flight.statuses.push(status));
    this.#timer = setInterval(() => {
      this.#note(this.flight.sent, (number) => agent.send(to, number));
      this.#note(this.flight.channelled, (number) => channel.send(envelope(channel, number)));
    }, everyMs);
  }

  get progress(): Progress {
    const { sent, channelled, statuses } = this.flight;
    return {
      sent: sent.length,
      delivered: sent.lastIndexOf('delivered'),
      waiting: channelled.filter((outcome) => outcome === 'pending').length,
      status: statuses.at(-1)!,
    };
  }

  async finish(): Promise<Flight> {
    clearInterval(this.#timer);
    await Promise.all(this.#settled);
    return this.flight;
  }

  #note(outcomes: string[], send: (number: number) => Promise<unknown>): void {
    const number = outcomes.push('pending') - 1;
    const settle = (outcome: string) => {
      outcomes[number] = outcome;
    };
    this.#settled.push(
      send(number).then(
        () => settle('delivered'),
        ({ code, details }: EclipticError) => settle(details.outcome ? `${code} ${details.outcome}` : code),
      ),
    );
  }
}
