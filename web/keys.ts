import { answer, isSettled, move, replying, selected, view } from './store.js';
import { ACTION_KEYS } from './text.js';

/** The keys of the list of waiting items. They do nothing while a text is being written. */
export function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target as HTMLElement;
  if (event.key === 'Escape') {
    replying.value = undefined;
    return;
  }
  if (target.tagName === 'TEXTAREA' || target.tagName === 'INPUT') return;
  if (event.key === 'j' || event.key === 'k') {
    move(event.key === 'j' ? 1 : -1);
    event.preventDefault();
    return;
  }
  const item = selected.value;
  const action = item?.actions.find((one) => ACTION_KEYS[one] === event.key);
  // A key that is held down answers one item only.
  if (!item || !action || event.repeat || !isSettled()) return;
  event.preventDefault();
  if (action === 'reply') {
    view.value = 'needs';
    replying.value = item.id;
  } else void answer(item, action);
}
