import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import { SEVERITIES } from '../tools/finding.js';
import type { ToolReport } from '../tools/tool-report.js';
import { reviewReport } from './review-report.js';
import { reviewMarkdown } from './review-text.js';

const text = z.string().max(10_000);
const count = z.number().nonnegative();
const FindingSchema = z.object({
  agent: text,
  rule: text,
  severity: z.enum(SEVERITIES),
  file: text,
  line: z.int().positive(),
  message: text,
  evidence: text,
});
const ReportSchema = z.object({
  agent: text,
  tool: text,
  summary: text,
  findings: z.array(FindingSchema).max(10_000),
  more: count,
  scanned: z.object({ files: count, lines: count }),
  skipped: z.object({ links: count, tooLarge: count, binary: count, unreadable: count, beyondLimits: count }),
  facts: z.record(z.string(), z.unknown()),
});

/** One document in Markdown from the results of tools that earlier tasks of a plan have. */
export function summaryOf(results: Readonly<Record<string, unknown>>): string {
  const reports = Object.values(results).flatMap((result): ToolReport[] => {
    const read = ReportSchema.safeParse(result);
    return read.success ? [read.data] : [];
  });
  if (reports.length === 0) {
    const message = 'a summary needs results of the roster’s tools: name the tasks that have them in "dependsOn"';
    throw new EclipticError('INVALID_ARGUMENTS', message);
  }
  const about = { workspace: 'the workspace', ms: 0 };
  return reviewMarkdown(
    reviewReport(
      about,
      reports.map((report) => ({ report, ms: 0 })),
    ),
  );
}
