/** One server-sent event; `data` is one line of JSON. */
export function encodeSse(data: string, id?: string): string {
  return id === undefined ? `data: ${data}\n\n` : `id: ${id}\ndata: ${data}\n\n`;
}

/** A line that readers skip, to keep a quiet connection open and to notice one that is gone. */
export const SSE_HEARTBEAT = ': \n\n';
