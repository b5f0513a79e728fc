/** What the threads of a run's tasks begin with. */
export function planThreads(run: string): string {
  return `plan:${run}:`;
}
