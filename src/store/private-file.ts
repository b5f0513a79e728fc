import { closeSync, fsyncSync, linkSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Writes a file for its owner only. A crash at any moment leaves the old one or the new one, never half of it. */
export function writePrivately(file: string, text: string): void {
  const draft = draftOf(file);
  rmSync(draft, { force: true });
  writeDraft(draft, text);
  renameSync(draft, file);
  syncFolder(dirname(file));
}

/**
 * Makes a file for its owner only, whole or not at all; false where there is one already. Of several processes that try
 * at once, each with a `token` of its own, one succeeds.
 */
export function createPrivately(file: string, text: string, token: string): boolean {
  const draft = `${file}.${token}.new`;
  try {
    writeDraft(draft, text);
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  syncFolder(dirname(file));
  return true;
}

function writeDraft(draft: string, text: string): void {
  const handle = openSync(draft, 'wx', 0o600);
  try {
    writeFileSync(handle, text);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Removes a file, and what a crash may have left of its next version. */
export function removePrivately(file: string): void {
  rmSync(draftOf(file), { force: true });
  rmSync(file, { force: true });
}

function draftOf(file: string): string {
  return `${file}.new`;
}

/** The new name is on disk only when its folder is. Windows has no such call, and needs none. */
function syncFolder(folder: string): void {
  if (process.platform === 'win32') return;
  const handle = openSync(folder, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
