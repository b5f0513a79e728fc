/** Hours of the day in which nobody is woken, as `22:00-07:00`, on the clock of this machine. */
export const QUIET_HOURS = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$/;

const MINUTE_MS = 60_000;
const DAY = 1_440;

/** How long from then it stays quiet; 0 when it is not. */
export function quietFor(hours: string | undefined, at: number): number {
  const found = QUIET_HOURS.exec(hours ?? '');
  if (!found) return 0;
  const [from, to] = [minutes(found[1]!, found[2]!), minutes(found[3]!, found[4]!)];
  const clock = new Date(at);
  const now = clock.getHours() * 60 + clock.getMinutes();
  const since = (now - from + DAY) % DAY;
  const length = (to - from + DAY) % DAY;
  return since < length ? (length - since) * MINUTE_MS - (at % MINUTE_MS) : 0;
}

function minutes(hour: string, minute: string): number {
  return Number(hour) * 60 + Number(minute);
}
