/** The key of a progress report that says how many decisions of an owner the work waits for. */
const WAITING = 'ecliptic/waiting';

export function waitingReport(decisions: number): Readonly<Record<string, unknown>> {
  return { [WAITING]: decisions };
}

/** How many decisions the work waits for, if a progress report says so. It comes from another agent. */
export function waitingIn(report: unknown): number | undefined {
  if (typeof report !== 'object' || report === null || !(WAITING in report)) return undefined;
  const decisions = (report as Record<string, unknown>)[WAITING];
  return Number.isInteger(decisions) && (decisions as number) > 0 ? (decisions as number) : 0;
}
