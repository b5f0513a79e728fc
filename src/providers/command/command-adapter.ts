import type { Child } from '../../system/process/child.js';
import type { ExecuteTerms, ProviderHealthStatus } from '../adapter/adapter.js';
import { normalizeError } from '../adapter/errors.js';
import { ProcessAdapter, type ProcessConfig } from '../host/process-adapter.js';
import { LineSession } from './line-session.js';

/** A provider that is any program which speaks the line protocol (`docs/line-protocol.md`). */
export class CommandAdapter extends ProcessAdapter<LineSession, ProcessConfig, unknown, unknown> {
  readonly type = 'command';

  init(config: ProcessConfig): Promise<void> {
    return this.start(config);
  }

  async health(): Promise<ProviderHealthStatus> {
    try {
      const { state, message } = await this.check((session) => session.health());
      const lastCheck = new Date(this.components.runtime.now());
      return { state, lastCheck, failureCount: 0, ...(message !== undefined && { message }) };
    } catch (error) {
      throw normalizeError(error, 'command');
    }
  }

  execute(input: unknown, correlationId: string, terms: ExecuteTerms = {}): Promise<unknown> {
    return this.work(
      (session, activity, onUpdate) =>
        session.execute({ correlationId, input, folder: terms.folder }, (update) => {
          activity.touch();
          onUpdate?.(update);
        }),
      correlationId,
      terms,
    );
  }

  describe(): Readonly<Record<string, unknown>> {
    return { ...this.status, ...(this.session && { program: this.session.ready }) };
  }

  protected connect(child: Child): Promise<LineSession> {
    const { runtime, lane } = this.components;
    return LineSession.open(runtime, child, { agent: this.id, folder: lane.folder });
  }
}
