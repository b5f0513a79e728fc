import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { MemoryWatch } from './memory-watch.js';
import { signalGroup } from './process-table.js';

const LIMIT = 150 * 1_048_576;
/** Takes 200 MB, and keeps them. */
const HOG = 'globalThis.kept = Buffer.alloc(200 * 1_048_576, 1); setInterval(() => {}, 1_000)';
const runtime = systemRuntime();
let leader: ChildProcess;

afterEach(() => {
  signalGroup(leader.pid!, 'SIGKILL');
});

/** A group whose first process is a shell that does this; `"$0" -e "$1"` is a process that takes a lot. */
function group(script: string): number {
  leader = spawn('/bin/sh', ['-c', script, process.execPath, HOG], { detached: true, stdio: 'ignore' });
  return leader.pid!;
}

describe.runIf(existsSync('/proc/self/stat'))('the memory of a group', () => {
  it.each([
    ['its first process', 'exec "$0" -e "$1"'],
    ['what that has started', '"$0" -e "$1"; true'],
    ['what is left when that has ended', '"$0" -e "$1" & exit'],
  ])('is that of %s, and whoever watches is told once', async (_, script) => {
    const watch = new MemoryWatch(runtime, 10);
    const told: number[] = [];
    const pid = group(script);
    const stop = watch.watch(pid, LIMIT, (bytes) => told.push(bytes));
    await vi.waitFor(() => expect(told).toHaveLength(1), { timeout: 20_000 });
    expect(told[0]).toBeGreaterThan(LIMIT);
    stop();
  });

  it('is known while it is watched, and not reported below the limit', async () => {
    const watch = new MemoryWatch(runtime, 10);
    const told: number[] = [];
    const pid = group('sleep 60; true');
    const stop = watch.watch(pid, LIMIT, (bytes) => told.push(bytes));
    await vi.waitFor(() => expect(watch.bytesOf(pid)).toBeGreaterThan(0), { timeout: 20_000 });
    stop();
    expect([told, watch.bytesOf(pid)]).toEqual([[], undefined]);
  });
});
