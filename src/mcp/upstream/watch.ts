import type { McpSubscription, SubscriptionFilter } from '@modelcontextprotocol/client';
import { wait } from '../../runtime/async.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { LogEntrySchema } from '../call.js';
import type { Connection } from './connection.js';

export interface WatchInit {
  /** Reads the lists again and returns the URIs of the resources. */
  readonly refresh: () => Promise<readonly string[]>;
  readonly onResource: (uri: string) => void;
}

/** Least time between two readings of the lists … */
const PAUSE_MS = 1_000;
/** … which doubles up to this while the server keeps announcing changes. */
const MAX_PAUSE_MS = 30_000;
/** Resources that are subscribed to. */
const MAX_FOLLOWED = 256;

/** Handles a server's notifications: changed lists and resources, and log entries. */
export class Watch {
  readonly #runtime: Runtime;
  readonly #connection: Connection;
  readonly #init: WatchInit;
  readonly #followed = new Set<string>();
  #subscription: McpSubscription | undefined;
  #refreshing = false;
  #changed = false;

  constructor(runtime: Runtime, connection: Connection, init: WatchInit) {
    this.#runtime = runtime;
    this.#connection = connection;
    this.#init = init;
    const { client } = connection;
    for (const list of ['tools', 'resources', 'prompts'] as const) {
      client.setNotificationHandler(`notifications/${list}/list_changed`, () => void this.#refresh());
    }
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => init.onResource(params.uri));
    client.setNotificationHandler('notifications/message', ({ params }) => {
      const { level, data, logger } = params;
      const entry = LogEntrySchema.safeParse({ level, data, ...(logger !== undefined && { logger }) });
      // With several open calls, an entry cannot be attributed, and may be confidential.
      if (entry.success) connection.onlyCall?.onLog(entry.data);
    });
  }

  /** Subscribes to changes of lists and of these resources. */
  async follow(uris: readonly string[]): Promise<void> {
    const { client, isModern } = this.#connection;
    const { resources } = client.getServerCapabilities() ?? {};
    const fresh = resources?.subscribe ? uris.filter((uri) => !this.#followed.has(uri)) : [];
    for (const uri of fresh.slice(0, MAX_FOLLOWED - this.#followed.size)) {
      this.#followed.add(uri);
      // A server may refuse subscriptions to some resources.
      if (!isModern) void client.subscribeResource({ uri }).catch(() => {});
    }
    if (isModern && (fresh.length > 0 || !this.#subscription)) await this.#listen();
  }

  async #listen(): Promise<void> {
    const { client } = this.#connection;
    const { tools, prompts, resources } = client.getServerCapabilities() ?? {};
    const filter: SubscriptionFilter = {
      ...(tools?.listChanged && { toolsListChanged: true }),
      ...(prompts?.listChanged && { promptsListChanged: true }),
      ...(resources?.listChanged && { resourcesListChanged: true }),
      ...(this.#followed.size > 0 && { resourceSubscriptions: [...this.#followed] }),
    };
    if (Object.keys(filter).length === 0) return;
    const earlier = this.#subscription;
    try {
      const subscription = await this.#connection.ask(() => client.listen(filter));
      this.#subscription = subscription;
      void subscription.closed.then((cause) => {
        if (cause !== 'local' && this.#subscription === subscription) void this.#listenAgain();
      });
    } catch (error) {
      this.#runtime.logger.debug({ error: describeError(error) }, 'MCP server change notifications unavailable');
    }
    await earlier?.close();
  }

  /** Opens an ended stream again, and reads the lists for changes in between. */
  async #listenAgain(): Promise<void> {
    this.#subscription = undefined;
    await wait(this.#runtime, PAUSE_MS);
    if (this.#connection.isOver) return;
    await this.#listen();
    await this.#refresh();
  }

  async #refresh(): Promise<void> {
    this.#changed = true;
    if (this.#refreshing) return;
    this.#refreshing = true;
    let pause = PAUSE_MS;
    while (this.#changed && !this.#connection.isOver) {
      this.#changed = false;
      try {
        await this.follow(await this.#init.refresh());
      } catch (error) {
        this.#runtime.logger.warn({ error: describeError(error) }, 'MCP server lists not refreshed');
      }
      await wait(this.#runtime, pause);
      pause = Math.min(2 * pause, MAX_PAUSE_MS);
    }
    this.#refreshing = false;
  }
}
