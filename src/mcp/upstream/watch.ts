import type { McpSubscription, SubscriptionFilter } from '@modelcontextprotocol/client';
import { wait } from '../../runtime/async.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { LogEntrySchema } from '../call.js';
import type { Connection } from './connection.js';

export interface WatchInit {
  /** Reads the lists anew and says which resources there are. */
  readonly refresh: () => Promise<readonly string[]>;
  readonly onResource: (uri: string) => void;
}

/** However often a server says that its lists have changed, they are not read more often than this … */
const PAUSE_MS = 1_000;
/** … and ever less often while it goes on saying so. */
const MAX_PAUSE_MS = 30_000;
/** Resources whose changes are followed. */
const MAX_FOLLOWED = 256;

/** Follows what a server says by itself: changed lists and resources, and log entries. */
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
      // With several calls under way nobody knows whose it is, and it may be nobody else's business.
      if (entry.success) connection.onlyCall?.onLog(entry.data);
    });
  }

  /** Asks to be told of changes, also of those resources. */
  async follow(uris: readonly string[]): Promise<void> {
    const { client, isModern } = this.#connection;
    const { resources } = client.getServerCapabilities() ?? {};
    const fresh = resources?.subscribe ? uris.filter((uri) => !this.#followed.has(uri)) : [];
    for (const uri of fresh.slice(0, MAX_FOLLOWED - this.#followed.size)) {
      this.#followed.add(uri);
      // One that it does not want to be asked about is no matter.
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
      this.#runtime.logger.debug({ error: describeError(error) }, 'an MCP server does not tell of changes');
    }
    await earlier?.close();
  }

  /** The stream of changes has ended: it is opened again, and what changed meanwhile is looked for. */
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
        this.#runtime.logger.warn({ error: describeError(error) }, 'an MCP server’s lists could not be read anew');
      }
      await wait(this.#runtime, pause);
      pause = Math.min(2 * pause, MAX_PAUSE_MS);
    }
    this.#refreshing = false;
  }
}
