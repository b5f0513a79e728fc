import { computed, signal } from '@preact/signals';

/** The place in the fragment of the address: `#/tasks/ID` has the name `tasks` and the rest `ID`. */
export interface Route {
  readonly place: string;
  readonly rest: string;
}

const fragment = signal(location.hash);
addEventListener('hashchange', () => {
  fragment.value = location.hash;
});

export const route = computed<Route>(() => {
  const [, place = '', rest = ''] = /^#\/([\w-]*)\/?(.*)$/s.exec(fragment.value) ?? [];
  return { place, rest: decoded(rest) };
});

/** The address of a place, for links. */
export function href(place: string, rest = ''): string {
  return `#/${place}${rest === '' ? '' : `/${encodeURIComponent(rest)}`}`;
}

export function go(place: string, rest = ''): void {
  location.hash = href(place, rest);
  // The event comes later; the page should not show the old place meanwhile.
  fragment.value = location.hash;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
