import { OWNER } from '../../coding-agents/mailbox/letter.js';
import type { A2AObservability } from '../../mesh/observability.js';
import { describeError } from '../../runtime/errors.js';
import type { Approvals } from '../../system/approvals/approvals.js';
import type { LoadedConfig } from '../config/load.js';
import { readNotify } from '../config/providers.js';
import { type NotifyWay, OwnerNotifier } from './owner-notifier.js';
import { type NotifyWaysComponents, notifyWays } from './ways.js';

interface NotifierComponents extends Omit<NotifyWaysComponents, 'allowPrivate'> {
  observability: A2AObservability;
  approvals: Approvals;
}

/** The notifier of a node, by its configuration. It looks as soon as mail for the owner or a question arrives. */
export function openNotifier(
  components: NotifierComponents,
  { config }: LoadedConfig,
  { folder }: { folder: string },
): OwnerNotifier {
  const { runtime, observability, approvals } = components;
  const allowPrivate = config.http?.allowPrivate;
  const ways = () => notifyWays({ ...components, allowPrivate }, readNotify(config.notify ?? {}, components.env));
  const about = { bell: config.notify?.bell !== false, kinds: config.notify?.kinds };
  const notifier = new OwnerNotifier({ runtime, ways: waysOr(ways) }, { folder, ...about });
  const stopMail = observability.subscribe(({ type, receiptState, recipient }) => {
    if (type === 'receipt' && receiptState === 'arrived' && recipient === OWNER) notifier.changed();
  });
  const stopQuestions = approvals.onRequest(() => notifier.changed());
  notifier.onClose(() => {
    stopMail();
    stopQuestions();
  });
  return notifier;
}

/** A webhook that cannot be read must not keep the node from starting: it fails where it is used and tested. */
function waysOr(ways: () => NotifyWay[]): NotifyWay[] {
  try {
    return ways();
  } catch (error) {
    return [{ name: 'webhook', elsewhere: false, tell: async () => describeError(error) }];
  }
}
