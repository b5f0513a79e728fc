import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { installFolder } from '../installed-folder.js';
import { FOLDER } from './coding-clients.js';

const TMUX = 'apt-get update && apt-get install -y --no-install-recommends tmux';

export function setup(): Promise<void> {
  if (spawnSync('tmux', ['-V']).status !== 0) {
    throw new Error(`the tests in terminals need tmux; install it (as root): ${TMUX}`);
  }
  return installFolder(FOLDER, join('.bin', 'codex'));
}
