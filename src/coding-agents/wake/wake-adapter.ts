/** Whether there is a way in at present, and in words for the owner. */
export interface Probe {
  readonly open: boolean;
  readonly about: string;
}

/**
 * One way to start a turn of an agent that does nothing. It is given a pointer, never the message. That it took the
 * pointer proves nothing: only `read` does.
 */
export interface WakeAdapter {
  /** What the owner knows it by. */
  readonly name: string;
  /** Looks, and changes nothing. */
  probe(): Promise<Probe>;
  surface(pointer: string): Promise<Surfaced>;
  /** Two of the same key lead to the same place. */
  readonly key: string;
}

export type Surfaced = { readonly outcome: 'submitted' } | { readonly outcome: 'refused'; readonly reason: string };

export function refused(reason: string): Surfaced {
  return { outcome: 'refused', reason };
}

export const SUBMITTED: Surfaced = { outcome: 'submitted' };
