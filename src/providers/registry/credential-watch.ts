import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Credentials } from '../../system/secrets/credentials.js';
import type { ProviderRegistry } from './provider-registry.js';

export interface CredentialWatchComponents {
  runtime: Runtime;
  credentials: Pick<Credentials, 'onChange'>;
  providers: ProviderRegistry;
}

/** Providers that have their credentials in their environment, and not with each call. */
const PROGRAMS: ReadonlySet<string> = new Set(['acp', 'command']);

/**
 * Lets providers follow their credentials: a program that was started with a value which has ended is started again, and one
 * that was lacking a value is tried at once. After a rotation a replacement takes over, and the work of the old one goes on.
 * Returns the way to stop.
 */
export function watchCredentials({ runtime, credentials, providers }: CredentialWatchComponents): () => void {
  return credentials.onChange(({ kind, provider, workspace, ended }) => {
    const row = providers.list().find(({ id, workspaceId }) => id === provider && workspaceId === workspace);
    if (!row || row.phase === 'draining' || row.phase === 'drained') return;
    const well = row.state === 'healthy';
    if (PROGRAMS.has(row.type)) {
      const renewing = well && !ended;
      (renewing ? providers.renew(provider) : providers.restart(provider)).catch((error: unknown) => {
        runtime.logger.info(
          { provider, reason: describeError(error) },
          'a provider did not start with its credentials',
        );
      });
    } else if (!well || kind !== 'rotated') {
      // A check that is under way may have begun with the value of before.
      void providers.health.checkUnderWay(provider).then(() => providers.health.checkNow(provider));
    }
  });
}
