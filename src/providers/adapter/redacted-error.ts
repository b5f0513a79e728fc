import type { Redactor } from '../../system/secrets/redactor.js';
import { NormalizedProviderError } from './provider-errors.js';

/** The same failure without the provider's secrets, and without what it was made from: that may show them. */
export function redactedError(failure: NormalizedProviderError, redactor: Redactor): NormalizedProviderError {
  const { code, message, providerSource, correlationId } = failure;
  const details = redactor.cleanAll(failure.details);
  return new NormalizedProviderError(code, redactor.clean(message), providerSource, { correlationId, details });
}
