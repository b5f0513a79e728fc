import { PARTS_TEXT } from '../text/parts.js';
import { Empty } from './empty.js';

/** Stands for a read that has no value yet: it is under way, or the node cannot read it. */
export function Unread({ error }: { error: string | undefined }) {
  return <Empty>{error === undefined ? PARTS_TEXT.reading : PARTS_TEXT.unreadable(error)}</Empty>;
}
