import type { Party } from '../../mesh/policy.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Approval } from '../../system/approvals/approval-queue.js';
import type { Approvals } from '../../system/approvals/approvals.js';
import type { Credentials } from '../../system/secrets/credentials.js';
import type { ProviderRegistry } from './registry.js';

interface CredentialConsentComponents {
  approvals: Pick<Approvals, 'items' | 'request'>;
  isForeign: (node: string) => boolean;
}

const CONSENT_APPROVAL = 'credential-use';
/** Open questions about the agents of one node. */
const MAX_QUESTIONS = 20;
const QUESTION_MS = 7 * 86_400_000;

/**
 * Another person's agent that calls a tool uses the credentials of the tool's server. At the first use for each agent and
 * server the operator is asked, and calls are refused until the answer, so that no caller waits for a person.
 */
export class CredentialConsent {
  readonly #components: CredentialConsentComponents;
  readonly #lasting = new Set<string>();
  /** Ids of approvals for one use that are used up. */
  readonly #used = new Set<string>();

  constructor(components: CredentialConsentComponents) {
    this.#components = components;
  }

  /** Throws `PROVIDER_POLICY_DENIED` where the operator has not allowed it. */
  require({ address, node }: Party, server: string, credentials: readonly string[]): void {
    if (node === undefined || credentials.length === 0 || !this.#components.isForeign(node)) return;
    const subject = JSON.stringify([address, server, ...credentials]);
    if (this.#lasting.has(subject)) return;
    const last = this.#questions.findLast((item) => item.subject === subject);
    const question = last && !this.#isSpent(last) ? last : this.#ask(subject, address, node, server, credentials);
    const verdict = question.decision?.verdict;
    if (verdict === 'allow-always') this.#lasting.add(subject);
    else if (verdict === 'allow-once') this.#used.add(question.id);
    else throw refused(address, server, verdict === 'deny' ? 'denied it' : 'has to approve it first; try again then');
  }

  get #questions(): readonly Approval[] {
    return this.#components.approvals.items.filter(({ kind }) => kind === CONSENT_APPROVAL);
  }

  /** Was the answer used up, or did none come in time? */
  #isSpent({ id, decision }: Approval): boolean {
    return this.#used.has(id) || decision?.by === 'timeout';
  }

  #ask(subject: string, agent: string, node: string, server: string, credentials: readonly string[]): Approval {
    const waiting = this.#questions.filter(({ decision, details }) => !decision && details.node === node);
    if (waiting.length >= MAX_QUESTIONS) throw refused(agent, server, 'has too many questions of its node to answer');
    const kept = new Set(this.#components.approvals.items.map(({ id }) => id));
    for (const id of this.#used) if (!kept.has(id)) this.#used.delete(id);
    const [question] = this.#components.approvals.request({
      kind: CONSENT_APPROVAL,
      subject,
      summary: `${agent}, of another person’s node, wants to use MCP server "${server}" with your credentials (${credentials.join(', ')})`,
      details: { agent, node, server, credentials: [...credentials] },
      timeoutMs: QUESTION_MS,
    });
    return question!;
  }
}

function refused(agent: string, server: string, why: string): EclipticError {
  const message = `${agent} may not use the credentials of MCP server "${server}": its owner ${why}`;
  return new EclipticError('PROVIDER_POLICY_DENIED', message, { agent, server });
}

interface CredentialWatchComponents {
  runtime: Runtime;
  credentials: Pick<Credentials, 'onChange'>;
  providers: ProviderRegistry;
}

/** Providers that get their credentials at their start, and not with each call. */
const PROGRAMS: ReadonlySet<string> = new Set(['acp', 'command']);

/**
 * Restarts providers when their credentials change. After a rotation a replacement takes over while the old process
 * finishes its work; a program whose value has ended is restarted; a provider that lacked a value is tried at once.
 * Returns the function that stops this.
 */
export function watchCredentials({ runtime, credentials, providers }: CredentialWatchComponents): () => void {
  return credentials.onChange(({ kind, provider, workspace, ended }) => {
    for (const { id, workspaceId, phase, state, type } of providers.list()) {
      // The workers of an agent, `mars/1` and `mars/2`, share its credentials.
      const isOwner = id === provider || /^\/\d+$/.test(id.startsWith(provider) ? id.slice(provider.length) : '');
      if (!isOwner || workspaceId !== workspace || phase === 'draining' || phase === 'drained') continue;
      const well = state === 'healthy';
      if (PROGRAMS.has(type)) {
        const renewing = well && !ended;
        (renewing ? providers.renew(id) : providers.restart(id)).catch((error: unknown) => {
          const about = { provider: id, reason: describeError(error) };
          runtime.logger.info(about, 'provider did not restart with its new credentials');
        });
      } else if (!well || kind !== 'rotated') {
        void providers.recheck(id);
      }
    }
  });
}
