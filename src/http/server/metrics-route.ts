import { EclipticError } from '../../runtime/errors.js';
import type { Exchange, Route } from './http-server.js';

/** The node's metrics for Prometheus. They tell of every agent, so callers in a sandbox do not get them. */
export function metricsRoute(text: () => Promise<string>): Route {
  return {
    path: '/metrics',
    async serve({ response, principal }: Exchange) {
      if (principal.sandboxId !== undefined) {
        throw new EclipticError('SANDBOX_VIOLATION', 'metrics tell of agents outside your sandbox');
      }
      const body = await text();
      response.writeHead(200, {
        'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
        'Content-Length': Buffer.byteLength(body),
      });
      response.end(body);
    },
  };
}
