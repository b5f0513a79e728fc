/**
 * The environment of a program that a test starts: a home of its own, and the compiled code that all tests share, because
 * each start would compile the program, which takes as long as the rest of the start.
 */
export function childEnvironment(home: string, more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const cache = process.env.ECLIPTIC_TEST_CACHE;
  return { PATH: process.env.PATH!, HOME: home, ...(cache && { XDG_CACHE_HOME: cache }), ...more };
}
