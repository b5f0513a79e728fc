import { Deferred } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { PAGE_FOLDER } from '../../runtime/package.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Route } from '../server/http-server.js';
import { frontPage } from '../server/routes.js';
import { DataApi } from './data-api.js';
import type { DashboardSource, PageOperation } from './facts.js';
import { pageRoutes } from './page-files.js';
import { PageSessions } from './page-sessions.js';

export interface DashboardComponents {
  runtime: Runtime;
  /** The node's address. */
  url: () => string;
  /** Ends the open streams of a session. */
  dismiss: (session: string) => void;
}

export interface DashboardInit {
  folder: string;
  /** The node's key. Nodes on one host share the browser's cookies, so each has a cookie of its own name. */
  node: string;
  /** The operations of the data API. */
  operations: readonly PageOperation[];
}

/** A link that opens the page once. */
export interface PageLink {
  readonly url: string;
  readonly expiresAt: number;
}

/** The owner's page: its files, its sessions and its data. */
export class Dashboard {
  readonly routes: readonly Route[];
  readonly #components: DashboardComponents;
  readonly #sessions: PageSessions;
  readonly #source = new Deferred<DashboardSource>();
  readonly #api: DataApi;

  constructor(components: DashboardComponents, { folder, node, operations }: DashboardInit) {
    this.#components = components;
    const { runtime, url } = components;
    this.#sessions = new PageSessions({ runtime, folder });
    const source = this.#source.promise;
    const cookie = `ecliptic-${node.slice(0, 12)}`;
    this.#api = new DataApi({ runtime, sessions: this.#sessions, source }, { cookie, operations });
    this.routes = [...this.#api.routes, ...pageRoutes(PAGE_FOLDER, frontPage(url))];
  }

  /** The node has started: requests that came before are answered now. */
  begin(source: DashboardSource): void {
    this.#source.resolve(source);
  }

  /** The token is in the fragment, which browsers do not send: it gets into no log, and previews do not use it up. */
  link(): PageLink {
    const url = new URL(this.#components.url());
    if (url.hostname === '0.0.0.0' || url.hostname === '[::]') url.hostname = '127.0.0.1';
    const { token, expiresAt } = this.#sessions.link();
    url.hash = `token=${token}`;
    return { url: url.href, expiresAt };
  }

  /** Ends all sessions and links; open pages are disconnected. Returns the number of sessions. */
  revoke(): number {
    const ended = this.#sessions.revokeAll();
    for (const id of ended) this.#components.dismiss(id);
    return ended.length;
  }

  close(): void {
    this.#source.reject(new EclipticError('NODE_STOPPED', 'the node is stopping'));
    this.#api.close();
  }
}
