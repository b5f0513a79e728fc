import { joined } from '../a2a/protocol/task-machine.js';
import type { Artifact, Part } from '../a2a/protocol/types.js';
import type { TaskReport } from './agent-tasks.js';

/** Collects the result of streamed work: appended chunks of an artifact become one value. */
export class JobResult {
  readonly #chunks: unknown[] = [];
  readonly #artifacts: Artifact[] = [];
  readonly #messages: unknown[] = [];

  /** An item that is no report is part of the result itself. */
  addChunk(chunk: unknown): void {
    this.#chunks.push(chunk);
  }

  addArtifact({ artifact, append }: Extract<TaskReport, { report: 'artifact' }>): void {
    const index = this.#artifacts.findIndex(({ artifactId }) => artifactId === artifact.artifactId);
    if (index < 0) this.#artifacts.push(artifact);
    else this.#artifacts[index] = append ? joined(this.#artifacts[index]!, artifact) : artifact;
  }

  addMessage(parts: readonly Part[]): void {
    this.#messages.push(contentOf(parts));
  }

  /** One value where there is one, else the list of them. */
  get value(): unknown {
    const made = [...this.#artifacts.map(({ parts }) => contentOf(parts)), ...this.#messages];
    const found = this.#chunks.length > 0 ? this.#chunks : made;
    return found.length > 1 ? found : found[0];
  }
}

/** Parts in their plainest form: text, or data, or the parts themselves. */
export function contentOf(parts: readonly Part[]): unknown {
  const [only, ...others] = parts;
  if (!only || others.length > 0) return parts;
  return only.text ?? (only.data === undefined ? parts : only.data);
}
