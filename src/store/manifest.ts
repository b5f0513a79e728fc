import { crc32 } from 'node:zlib';
import type { Disk } from '../system/files/disk.js';
import { storeDamaged, storeFailed } from './faults.js';
import { isUsedLog } from './log.js';
import type { RunRecord } from './run.js';
import type { TableDefinition } from './table.js';

const NAME = 'manifest';
/** Raised when the format of the files changes. */
const FORMAT = 1;

/** Rows, bytes of texts and highest number of a table. */
export interface TableFigures {
  rows: number;
  bytes: number;
  last: number;
}

export interface TableRecord {
  readonly name: string;
  readonly definition: Required<TableDefinition>;
}

/** A log whose rows are not all in runs. */
export interface LogRecord {
  readonly number: number;
  /** When the next log was begun; 0 for the newest. */
  readonly length: number;
  /** Of the tables, by name, when this log was begun. */
  readonly figures: Readonly<Record<string, TableFigures>>;
}

/** The state of the files: replaced atomically whenever a run or a log is added or removed. */
export interface Manifest {
  readonly format: number;
  /** The number of the next file. */
  readonly next: number;
  /** Newest first. */
  readonly runs: readonly RunRecord[];
  /** Oldest first. */
  readonly logs: readonly LogRecord[];
  /** The position of a table is its number in the logs. */
  readonly tables: readonly TableRecord[];
}

/** One line of JSON, with its checksum before it. */
export async function writeManifest(disk: Disk, manifest: Omit<Manifest, 'format'>): Promise<void> {
  const text = Buffer.from(JSON.stringify({ format: FORMAT, ...manifest }));
  await disk.replace(NAME, Buffer.concat([Buffer.from(`${sumOf(text)} `), text, Buffer.from('\n')]));
}

/** A manifest of a later release is refused. */
export function readManifest(disk: Disk): Manifest {
  const path = disk.pathOf(NAME);
  const names = disk.list();
  if (!names.includes(NAME)) {
    // The folder is new, unless something was stored in it.
    const used = names.find((name) => name.startsWith('run-') || (name.startsWith('log-') && isUsedLog(disk, name)));
    if (used !== undefined) throw storeDamaged(path, `it is missing, but ${used} is there`);
    return { format: FORMAT, next: 1, runs: [], logs: [], tables: [] };
  }
  const bytes = disk.read(NAME);
  const text = bytes.subarray(9, bytes.length - 1);
  if (bytes.toString('latin1', 0, 8) !== sumOf(text)) throw storeDamaged(path, 'its checksum is wrong');
  const manifest: Manifest = JSON.parse(text.toString());
  if (manifest.format !== FORMAT) {
    const message = `${path} has format ${manifest.format}, this release reads ${FORMAT}: use the release that wrote it`;
    throw storeFailed(message, { reason: 'version', file: path, format: manifest.format });
  }
  return manifest;
}

function sumOf(text: Buffer): string {
  return crc32(text).toString(16).padStart(8, '0');
}
