import { type CallbackFailed, guarded } from '../../runtime/callbacks.js';
import type { ExecuteTerms } from './provider-adapter.js';

/** The same terms, with an `onUpdate` whose failure is reported and never reaches the provider. */
export function guardedTerms(terms: ExecuteTerms, provider: string, failed: CallbackFailed): ExecuteTerms {
  const { onUpdate } = terms;
  return onUpdate ? { ...terms, onUpdate: guarded(onUpdate, `onUpdate of provider ${provider}`, failed) } : terms;
}
