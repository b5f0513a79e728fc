import type { ComponentChildren } from 'preact';
import { TEXT } from '../text.js';

/** An empty view: what would be here, and how to get it. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command !== undefined && <pre>{command}</pre>}
    </div>
  );
}

/** Says that the node could not read this part, so that the last data is not taken for the present. */
export function Stale({ error }: { error: string | undefined }) {
  return error === undefined ? null : (
    <p class="warn" role="alert">
      <span aria-hidden="true">◌</span> {TEXT.stalePart(error)}
    </p>
  );
}
