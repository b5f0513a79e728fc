import type { Runtime } from '../../runtime/runtime.js';
import type { ActionGateComponents } from '../../system/approvals/action-gate.js';
import type { CredentialEvent } from '../../system/secrets/credentials.js';
import type { A2AObservability } from '../observability.js';

/** Puts on the one stream, and so into the audit log, what is done with credentials. */
export function reportCredentials(runtime: Runtime, observability: A2AObservability): (event: CredentialEvent) => void {
  return ({ kind, provider, workspace, name, error }) =>
    observability.emit({
      type: 'credential',
      topic: `credential.${kind}`,
      provider,
      details: { workspace, name },
      success: error === undefined,
      ...(error && { code: error.code, reason: error.message }),
      timestamp: runtime.now(),
    });
}

/** The same for what agents wanted to do by themselves. */
export function reportActions(runtime: Runtime, observability: A2AObservability): ActionGateComponents['report'] {
  return ({ agent, provider, action, subject }, { allowed, by, lasting, reason }, correlationId) =>
    observability.emit({
      type: 'action',
      topic: allowed ? 'action.allowed' : 'action.denied',
      sender: agent,
      provider,
      correlationId,
      details: { action, subject, by, lasting },
      success: allowed,
      ...(!allowed && { code: 'PROVIDER_POLICY_DENIED' }),
      reason,
      timestamp: runtime.now(),
    });
}
