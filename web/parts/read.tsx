import { connection } from '../api.js';
import { PARTS_TEXT } from '../text/parts.js';
import { TEXT } from '../text.js';
import { Empty } from './empty.js';

/** Stands for a read that has no value yet: it is under way, the node cannot read it, or does not answer. */
export function Unread({ error, reading = PARTS_TEXT.reading }: { error?: string | undefined; reading?: string }) {
  if (error !== undefined) return <Empty>{PARTS_TEXT.unreadable(error)}</Empty>;
  if (connection.value !== 'broken') return <Empty>{reading}</Empty>;
  return (
    <div class="empty">
      <p class="warn">
        <span aria-hidden="true">◌</span> {TEXT.stale}: {TEXT.noAnswer.unread}
      </p>
    </div>
  );
}
