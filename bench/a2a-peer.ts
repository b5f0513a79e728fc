import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type AgentCard, type Message, Role, TaskState } from '@a2a-js/sdk';
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryTaskStore,
  type TaskStore,
} from '@a2a-js/sdk/server';
import { DatabaseTaskStore } from '@a2a-js/sdk/server/database';
import { jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { createNode, openStore } from 'ecliptic';
import express from 'express';
import { Kysely, SqliteDialect } from 'kysely';
import Database from 'libsql';

/** A server whose agent echoes: with a task or with a message alone, in memory or in a folder. */
export interface A2ARole {
  /** `bare` is a `node:http` server that does nothing but write the answer. */
  readonly server: 'ours' | 'sdk' | 'bare';
  readonly answer: 'task' | 'message';
  readonly folder?: string;
}

export interface A2AReady {
  readonly url: string;
}

/** Its usage: CPU in microseconds, and for `memory` bytes after garbage collection. */
export interface A2AUse {
  readonly cpu: number;
  readonly heap: number;
  readonly rss: number;
}

async function ours({ answer, folder }: A2ARole): Promise<string> {
  const node = await createNode(folder === undefined ? {} : { store: await openStore(folder) });
  const agent = node.agent({ id: 'echo' });
  if (answer === 'task') agent.onTask((task) => task.text);
  else agent.onTask((task) => task.reply(task.text));
  const gateway = await node.serve({ port: 0, open: true, requestsPerMinute: Number.POSITIVE_INFINITY });
  return `${gateway.url}/a2a/rpc`;
}

async function sdk({ answer, folder }: A2ARole): Promise<string> {
  const store = folder === undefined ? new InMemoryTaskStore() : await databaseIn(folder);
  const handler = new DefaultRequestHandler(CARD, store, ECHO[answer]);
  const app = express();
  app.use('/', jsonRpcHandler({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication }));
  return listening(app.listen(0, '127.0.0.1'));
}

/** Reads a request as JSON and writes the answer that the others give, with no check, no agent and nothing kept. */
async function bare({ answer }: A2ARole): Promise<string> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { id, params } = JSON.parse(Buffer.concat(chunks).toString());
      const body = JSON.stringify({ jsonrpc: '2.0', id, result: BARE[answer](params.message) });
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
      response.end(body);
    });
  });
  return listening(server.listen(0, '127.0.0.1'));
}

const BARE = {
  message: ({ parts }: { parts: unknown }) => ({
    message: { messageId: crypto.randomUUID(), contextId: crypto.randomUUID(), role: 'ROLE_AGENT', parts },
  }),
  task: (message: { parts: unknown }) => {
    const [id, contextId] = [crypto.randomUUID(), crypto.randomUUID()];
    const status = { state: 'TASK_STATE_COMPLETED', timestamp: new Date().toISOString() };
    const artifacts = [{ artifactId: crypto.randomUUID(), parts: message.parts }];
    return { task: { id, contextId, status, artifacts, history: [{ ...message, contextId, taskId: id }] } };
  },
};

async function listening(server: Server): Promise<string> {
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** The SDK's own table, as its migrations make it. */
async function databaseIn(folder: string): Promise<TaskStore> {
  const database = new Database(join(folder, 'tasks.db'));
  database.exec('PRAGMA journal_mode = WAL');
  database.exec('PRAGMA synchronous = FULL');
  const columns = 'status text, artifacts text, history text, metadata text, protocol_version varchar(255)';
  database.exec(
    `CREATE TABLE tasks (tenant varchar(255) NOT NULL, owner varchar(255) NOT NULL, id varchar(36) NOT NULL,
     context_id varchar(36) NOT NULL, status_last_updated bigint NOT NULL, status_state varchar(255), ${columns},
     PRIMARY KEY (tenant, owner, id))`,
  );
  database.exec('CREATE INDEX scope_updated ON tasks (tenant, owner, status_last_updated, id)');
  database.exec('CREATE INDEX context_updated ON tasks (tenant, owner, context_id, status_last_updated, id)');
  return new DatabaseTaskStore(new Kysely({ dialect: new SqliteDialect({ database: database as never }) }));
}

const unset = { metadata: undefined, extensions: [] };

function words(text: string, contextId: string): Message {
  const part = { content: { $case: 'text' as const, value: text }, metadata: undefined, filename: '', mediaType: '' };
  return {
    messageId: crypto.randomUUID(),
    contextId,
    taskId: '',
    role: Role.ROLE_AGENT,
    parts: [part],
    referenceTaskIds: [],
    ...unset,
  };
}

function textOf({ parts }: Message): string {
  const content = parts[0]?.content;
  return content?.$case === 'text' ? content.value : '';
}

const ECHO: Record<A2ARole['answer'], AgentExecutor> = {
  message: {
    async execute({ userMessage, contextId }, bus) {
      bus.publish(AgentEvent.message(words(textOf(userMessage), contextId)));
      bus.finished();
    },
    async cancelTask() {},
  },
  task: {
    async execute({ userMessage, taskId, contextId }, bus) {
      const status = (state: TaskState) => ({ state, message: undefined, timestamp: new Date().toISOString() });
      const metadata = undefined;
      bus.publish(
        AgentEvent.task({
          id: taskId,
          contextId,
          status: status(TaskState.TASK_STATE_WORKING),
          artifacts: [],
          history: [userMessage],
          metadata,
        }),
      );
      const { parts } = words(textOf(userMessage), contextId);
      const artifact = { artifactId: crypto.randomUUID(), name: '', description: '', parts, ...unset };
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata }));
      const done = status(TaskState.TASK_STATE_COMPLETED);
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: done, metadata }));
      bus.finished();
    },
    async cancelTask() {},
  },
};

const CARD: AgentCard = {
  name: 'echo',
  description: 'Echoes.',
  version: '1.0.0',
  supportedInterfaces: [{ url: 'http://127.0.0.1/', protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' }],
  capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false, extensions: [] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
  provider: undefined,
  securitySchemes: {},
  securityRequirements: [],
  signatures: [],
};

const role = JSON.parse(process.argv[2]!) as A2ARole;
const url = await { ours, sdk, bare }[role.server](role);
process.on('message', (question) => {
  // Only for memory measurements, because it takes time that no request causes.
  if (question === 'memory') globalThis.gc?.();
  const { user, system } = process.cpuUsage();
  const { heapUsed: heap, rss } = process.memoryUsage();
  process.send!({ cpu: user + system, heap, rss } satisfies A2AUse);
});
process.on('disconnect', () => process.exit(0));
process.send!({ url } satisfies A2AReady);
