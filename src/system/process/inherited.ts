import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';

const CLOSE_ON_EXEC = 0o2_000_000;

let known: number[] | undefined;

/** Descriptors that this process inherited itself, and every program that it starts would inherit too. */
export function inheritedDescriptors(): number[] {
  // Node opens all of its own so that they are closed.
  known ??= findInherited();
  return known;
}

function findInherited(): number[] {
  try {
    return readdirSync('/proc/self/fd').map(Number).filter(isInherited);
  } catch {
    // Not Linux.
    return [];
  }
}

function isInherited(fd: number): boolean {
  if (fd <= 2) return false;
  try {
    const [, flags] = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1')) ?? [];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // It was closed meanwhile.
    return false;
  }
}

/** The standard pipes, and nothing in place of those descriptors. The function is to be called after the start. */
export function withoutInherited(fds: readonly number[]): { stdio: ('pipe' | 'ignore' | number)[]; done: () => void } {
  const stdio: ('pipe' | 'ignore' | number)[] = ['pipe', 'pipe', 'pipe'];
  if (fds.length === 0) return { stdio, done() {} };
  const nothing = openSync('/dev/null', 'r');
  while (stdio.length <= Math.max(...fds)) stdio.push('ignore');
  for (const fd of fds) stdio[fd] = nothing;
  return { stdio, done: () => closeSync(nothing) };
}
