import { crc32 } from 'node:zlib';
import type { Disk } from './disk.js';
import { storeDamaged, storeFailed } from './faults.js';
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

/** A table: its number in the log, its definition and its figures. */
export interface TableRecord extends TableFigures {
  readonly id: number;
  readonly definition: Required<TableDefinition>;
}

/** A run, with what distinguishes it from every other. */
export interface RunRecord {
  readonly name: string;
  readonly size: number;
  /** The checksum of its directory. */
  readonly sum: number;
}

/** The state of the files: replaced atomically whenever a run or a log is added or removed. */
export interface Manifest {
  readonly format: number;
  /** The number of the next run. */
  readonly nextRun: number;
  /** The oldest log whose rows are not all in runs. */
  readonly firstLog: number;
  /** The newest log when the manifest was written: there may be later ones, but this one must be there. */
  readonly lastLog: number;
  /** Newest first. */
  readonly runs: readonly RunRecord[];
  /** By name, with the figures when `firstLog` was begun. */
  readonly tables: Readonly<Record<string, TableRecord>>;
}

/** One line of JSON, with its checksum before it. */
export async function writeManifest(disk: Disk, manifest: Omit<Manifest, 'format'>): Promise<void> {
  const text = Buffer.from(JSON.stringify({ format: FORMAT, ...manifest }));
  await disk.replace(NAME, Buffer.concat([Buffer.from(`${sumOf(text)} `), text, Buffer.from('\n')]));
}

/** Undefined where there is none. A manifest of a later release is refused. */
export function readManifest(disk: Disk): Manifest | undefined {
  if (!disk.list().includes(NAME)) return undefined;
  const bytes = disk.read(NAME);
  const text = bytes.subarray(9, bytes.length - 1);
  const path = disk.pathOf(NAME);
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
