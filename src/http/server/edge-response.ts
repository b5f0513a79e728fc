import { type IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** An answer whose headers are written once, all together: setting them one by one costs as much as making the answer. */
export class EdgeResponse extends ServerResponse<IncomingMessage> {
  /** What goes out besides what its route says. */
  readonly always: OutgoingHttpHeaders = { 'X-Content-Type-Options': 'nosniff' };

  override writeHead(status: number, headers?: OutgoingHttpHeaders): this;
  override writeHead(status: number, message?: string, headers?: OutgoingHttpHeaders): this;
  override writeHead(status: number, first?: string | OutgoingHttpHeaders, second?: OutgoingHttpHeaders): this {
    const headers = typeof first === 'object' ? first : second;
    return super.writeHead(status, { ...this.always, ...headers });
  }
}
