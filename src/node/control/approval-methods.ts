import type { Approval, Verdict } from '../../system/approvals/approval.js';
import { VerdictSchema } from '../../system/approvals/approval.js';
import type { Approvals } from '../../system/approvals/approvals.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** The owner's word on what waits for it. */
export function approvalMethods(approvals: Approvals): Readonly<Record<string, ControlMethod>> {
  return {
    approvals(params): readonly Approval[] {
      const { all } = new Params(params).optional({ all: 'boolean' });
      return all ? approvals.items : approvals.waiting;
    },
    'approvals.decide'(params): readonly Approval[] {
      const read = new Params(params);
      const verdict: Verdict = read.oneOf('verdict', read.string('verdict'), VerdictSchema.options);
      const ids = read.listOf('ids', (value): value is string => typeof value === 'string', 'a list of ids') ?? [];
      return approvals.decide(verdict, 'operator', ...ids);
    },
  };
}
