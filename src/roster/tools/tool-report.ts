import type { Finding } from './finding.js';
import type { Skipped } from './workspace-files.js';

/** What a tool saw and found in one workspace. It is JSON. */
export interface ToolReport {
  readonly agent: string;
  readonly tool: string;
  /** What was done, in one line, also where nothing was found. */
  readonly summary: string;
  /** The most important first. */
  readonly findings: readonly Finding[];
  /** Findings beyond the limit, which are left out. */
  readonly more: number;
  readonly scanned: { readonly files: number; readonly lines: number };
  readonly skipped: Readonly<Skipped>;
  /** Results that are no findings: symbols, hits, counts. */
  readonly facts: Readonly<Record<string, unknown>>;
}

/** A call of a tool, as it is sent to its process. */
export interface ToolCall {
  readonly tool: string;
  readonly folder: string;
  /** Real paths of folders that are not looked into, such as the node's data. */
  readonly hidden?: readonly string[];
  readonly args: Readonly<Record<string, unknown>>;
}

/** The answer of the process. */
export type ToolAnswer =
  | { readonly report: ToolReport }
  | { readonly error: { readonly code: string; readonly message: string } };
