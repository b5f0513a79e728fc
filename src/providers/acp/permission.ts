import { cutText } from '../../runtime/text.js';
import type { ActionRuling } from '../../system/approvals/action-gate.js';
import type { ActionRule } from '../../system/approvals/action-rules.js';
import type { RequestPermissionRequest, RequestPermissionResponse } from './sdk.js';

/**
 * What holds for agents where the configuration has no rules: files of their own folder are theirs, and the operator is
 * asked about everything else.
 */
export const ACP_RULES: readonly ActionRule[] = [
  { action: 'fs.read', decision: 'allow' },
  { action: 'fs.write', decision: 'allow' },
  { action: 'terminal.run', decision: 'ask' },
  { action: 'permission.*', decision: 'ask' },
];

type Option = RequestPermissionRequest['options'][number];

/** The answer that grants what was ruled, and never more. */
export function answerPermission(ruling: ActionRuling, options: readonly Option[]): RequestPermissionResponse {
  const kinds: readonly Option['kind'][] = ruling.allowed
    ? ruling.lasting
      ? ['allow_always', 'allow_once']
      : ['allow_once']
    : ['reject_once', 'reject_always'];
  for (const kind of kinds) {
    const option = options.find((one) => one.kind === kind);
    if (option) return { outcome: { outcome: 'selected', optionId: option.optionId } };
  }
  return CANCELLED;
}

export const CANCELLED: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

/** What the operator is asked about: the kind of the action, and what it is done to. */
export function permissionAction({ toolCall }: RequestPermissionRequest): { action: string; subject: string } {
  const { kind, title, toolCallId } = toolCall;
  return { action: `permission.${kind ?? 'other'}`, subject: cutText(title ?? toolCallId, 1_024) || toolCallId };
}
