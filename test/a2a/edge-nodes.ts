import { AgentCard, SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk';
import { type Client, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import type { GatewayInit } from '../../src/http/gateway.js';
import type { InviteOptions } from '../../src/network/peers/network.js';
import type { EclipticNode, NodeInit } from '../../src/node/compose.js';
import { TaskNode, type WireTask } from './task-node.js';

export interface EdgeNodeInit extends GatewayInit {
  readonly invite?: InviteOptions;
  readonly node?: NodeInit;
  readonly agents?: boolean;
}

/** Served nodes of one mesh, over WebSocket links on this machine. */
export class EdgeNodes {
  readonly #nodes: TaskNode[] = [];

  /** The first node founds the mesh; the others join it, by default as devices of its owner. */
  async add({
    invite = { owner: true },
    node: nodeInit = {},
    agents = true,
    ...served
  }: EdgeNodeInit = {}): Promise<TaskNode & { readonly key: string }> {
    const network = { listen: { host: '127.0.0.1', port: 0 }, dht: false, ...nodeInit.network };
    const added = await TaskNode.start(served, { ...nodeInit, network }, { agents });
    const [founder] = this.#nodes;
    this.#nodes.push(added);
    if (founder && !added.node.network!.joined) {
      const { code } = await founder.node.network!.invite(invite);
      await added.node.network!.join(code);
    }
    await this.connected();
    return Object.assign(added, { key: added.node.key });
  }

  /** Every node is connected to every other, and knows its agents. */
  async connected(): Promise<void> {
    const running = this.#nodes.map(({ node }) => node);
    const knows = (one: EclipticNode, { key, agents }: EclipticNode) =>
      one.network!.peers.reachable(key) &&
      (!agents.some(({ id }) => id === 'slow') || one.registry.entry(`slow@${key}`) !== undefined);
    await until(() => running.every((one) => running.every((other) => one === other || knows(one, other))));
  }

  async stop(node: TaskNode): Promise<void> {
    this.#nodes.splice(this.#nodes.indexOf(node), 1);
    await node.stop();
  }

  async stopAll(): Promise<void> {
    for (const node of this.#nodes.splice(0).reverse()) await node.stop();
  }
}

export async function until(condition: () => boolean, ms = 10_000): Promise<void> {
  for (let passed = 0; passed < ms; passed += 10) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`not within ${ms} ms: ${condition}`);
}

/** The official client at a node, with the owner's token. */
export async function clientAt(node: TaskNode, binding = 'JSONRPC', version = '1.0'): Promise<Client> {
  const fetchImpl: typeof fetch = (url, init) => {
    const headers = new Headers(init?.headers);
    headers.set('Authorization', `Bearer ${node.owner}`);
    return fetch(url, { ...init, headers });
  };
  const bearing: Interceptor = (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start: (metadata, listener, next) => {
        metadata.set('authorization', `Bearer ${node.owner}`);
        next(metadata, listener);
      },
    });
  const options = { fetchImpl, legacyCompat: { enabled: true } };
  const factory = new ClientFactory({
    transports: [
      new JsonRpcTransportFactory(options),
      new RestTransportFactory(options),
      new GrpcTransportFactory({ grpcCallOptions: { interceptors: [bearing] } }),
    ],
  });
  const card = AgentCard.fromJSON((await (await node.get('/.well-known/agent-card.json')).json()) as never);
  const supportedInterfaces = card.supportedInterfaces.filter(
    (one) => one.protocolBinding === binding && one.protocolVersion === version,
  );
  return factory.createFromAgentCard({ ...card, supportedInterfaces });
}

let messages = 0;

export function request(
  text: string,
  tenant: string,
  more: object = {},
  configuration: object = {},
): SendMessageRequest {
  const message = { messageId: `edge-${++messages}`, role: 'ROLE_USER', parts: [{ text }], ...more };
  return SendMessageRequest.fromJSON({ tenant, message, configuration });
}

export function asTask(value: unknown): WireTask {
  return Task.toJSON(value as Task) as WireTask;
}

export function asEvent(value: StreamResponse): {
  task?: WireTask;
  statusUpdate?: { status: WireTask['status'] };
  artifactUpdate?: object;
} {
  return StreamResponse.toJSON(value) as never;
}
