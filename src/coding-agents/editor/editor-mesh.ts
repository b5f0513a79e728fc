import type { Part, StreamResponse, Task } from '../../a2a/protocol/types.js';

/** A decision of the owner that an agent's work waits for. */
export interface EditorApproval {
  /** Names it in `decide`. */
  readonly id: string;
  readonly title: string;
  readonly details: readonly { readonly label: string; readonly text: string }[];
  /** Lines that begin with `+`, `-` or a space. */
  readonly diff: readonly string[];
}

export const VERDICTS = ['allow-once', 'allow-always', 'deny'] as const;
export type Verdict = (typeof VERDICTS)[number];

/** A use of the editor's files that an agent asks for. */
export type FileUse =
  | { readonly use: 'read'; readonly path: string; readonly line?: number; readonly limit?: number }
  | { readonly use: 'write'; readonly path: string; readonly content: string };

export interface EditorTask {
  readonly parts: readonly Part[];
  readonly context: string;
}

/** The mesh as an editor uses it, with the rights of the node's owner. */
export interface EditorMesh {
  /** Gives the agent a task; resolves when it has ended. It may wait for answers in between. */
  send(task: EditorTask, onEvent: (event: StreamResponse) => void): Promise<void>;
  answer(taskId: string, text: string): Promise<void>;
  cancel(taskId: string): Promise<void>;
  /** An open approval, here or on another device of the owner; undefined if the owner cannot decide it. */
  approval(id: string): Promise<EditorApproval | undefined>;
  decide(id: string, verdict: Verdict): Promise<void>;
  /** The tasks of a conversation, oldest first. */
  history(context: string): Promise<readonly Task[]>;
  /** Offers the editor's files to the agent until the signal aborts. */
  offerFiles(use: (asked: FileUse) => Promise<string>, signal: AbortSignal): Promise<void>;
}
