import { join } from 'node:path';
import { installFolder } from '../installed-folder.js';
import { FOLDER } from './coding-clients.js';

export function setup(): Promise<void> {
  return installFolder(FOLDER, join('.bin', 'codex'));
}
