import { signal } from '@preact/signals';
import { PLACES } from './places.js';
import { go } from './route.js';
import { answer, replying } from './store.js';
import { ACTION_KEYS } from './text.js';
import { isSettled, move, selected } from './waiting.js';

export const helpOpen = signal(false);
export const SEARCH_ID = 'search';

/** The time within which a letter belongs to the `g` before it. */
const GO_MS = 1_500;
let wentAt = Number.NEGATIVE_INFINITY;

/** The page's keys. They do nothing while a text is being written. */
export function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target as HTMLElement;
  if (event.key === 'Escape') {
    replying.value = undefined;
    helpOpen.value = false;
    if (target.id === SEARCH_ID) target.blur();
    return;
  }
  if (['TEXTAREA', 'INPUT', 'SELECT'].includes(target.tagName)) return;
  if (isGo(event) || isFrameKey(event.key)) {
    event.preventDefault();
    return;
  }
  const item = selected.value;
  const action = item?.actions.find((one) => ACTION_KEYS[one] === event.key);
  // A key that is held down answers one item only.
  if (!item || !action || event.repeat || !isSettled()) return;
  event.preventDefault();
  if (action === 'reply') {
    if (document.querySelector('.needs') === null) go('needs');
    replying.value = item.id;
  } else void answer(item, action);
}

/** `g` and then the letter of a place. */
function isGo({ key, repeat }: KeyboardEvent): boolean {
  const isSecond = performance.now() - wentAt < GO_MS;
  wentAt = key === 'g' && !repeat ? performance.now() : Number.NEGATIVE_INFINITY;
  const place = isSecond ? PLACES.find((one) => one.key === key && !one.hidden) : undefined;
  if (place) go(place.id);
  return place !== undefined || key === 'g';
}

function isFrameKey(key: string): boolean {
  if (key === 'j' || key === 'k') move(key === 'j' ? 1 : -1);
  else if (key === '/') document.getElementById(SEARCH_ID)?.focus();
  else if (key === '?') helpOpen.value = !helpOpen.value;
  else return false;
  return true;
}
