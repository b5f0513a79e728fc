import { atLeast, byImportance, type Finding, SEVERITIES, type Severity } from '../tools/finding.js';
import type { ToolReport } from '../tools/tool-report.js';

/** What one agent did in a review. */
export interface ReviewPart {
  readonly agent: string;
  readonly tool: string;
  readonly summary: string;
  readonly ms: number;
  /** Findings that did not fit. */
  readonly more: number;
  /** Why the agent has no result. */
  readonly failed?: string;
}

export interface ReviewReport {
  readonly workspace: string;
  readonly since?: string;
  readonly ms: number;
  readonly scanned: ToolReport['scanned'];
  readonly skipped: ToolReport['skipped'];
  readonly parts: readonly ReviewPart[];
  /** The most severe first. */
  readonly findings: readonly Finding[];
  readonly counts: Readonly<Record<Severity, number>>;
  /** Results that are no findings, by tool. */
  readonly facts: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** The result of one agent of the swarm. */
export type PartResult =
  | { readonly report: ToolReport; readonly ms: number }
  | { readonly agent: string; readonly tool: string; readonly failed: string; readonly ms: number };

const NOTHING: Pick<ToolReport, 'scanned' | 'skipped'> = {
  scanned: { files: 0, lines: 0 },
  skipped: { links: 0, tooLarge: 0, binary: 0, unreadable: 0, beyondLimits: 0 },
};

/** Puts the results of the agents together. */
export function reviewReport(
  about: Pick<ReviewReport, 'workspace' | 'since' | 'ms'>,
  results: readonly PartResult[],
): ReviewReport {
  const reports = results.flatMap((result) => ('report' in result ? [result.report] : []));
  const findings = reports.flatMap((report) => report.findings).sort(byImportance);
  const { scanned, skipped } = reports[0] ?? NOTHING;
  const count = (severity: Severity) => findings.filter((finding) => finding.severity === severity).length;
  return {
    ...about,
    scanned,
    skipped,
    parts: results.map(partOf),
    findings,
    counts: Object.fromEntries(SEVERITIES.map((severity) => [severity, count(severity)])) as ReviewReport['counts'],
    facts: Object.fromEntries(reports.map(({ tool, facts }) => [tool, facts])),
  };
}

function partOf(result: PartResult): ReviewPart {
  if (!('report' in result)) {
    const { agent, tool, failed, ms } = result;
    return { agent, tool, summary: `did not finish: ${failed}`, ms, more: 0, failed };
  }
  const { agent, tool, summary, more } = result.report;
  return { agent, tool, summary, ms: result.ms, more };
}

/** Faults; what is only worth knowing is left out. */
export function faultsOf({ findings }: ReviewReport): Finding[] {
  return findings.filter(({ severity }) => severity !== 'info');
}

/** Is there a finding of that severity or above, or a part of the review missing? */
export function fails(report: ReviewReport, least: Severity): boolean {
  return (
    report.parts.some(({ failed }) => failed !== undefined) ||
    report.findings.some(({ severity }) => atLeast(severity, least))
  );
}

/** How many faults there are, in words. */
export function countText({ counts, parts }: ReviewReport): string {
  const said = [...SEVERITIES].reverse().flatMap((severity) => {
    return severity === 'info' || counts[severity] === 0 ? [] : [`${counts[severity]} ${severity}`];
  });
  const missing = parts.flatMap(({ agent, failed }) => (failed === undefined ? [] : [agent.toUpperCase()]));
  if (missing.length > 0) return `${[...said, 'incomplete'].join(', ')}: ${missing.join(', ')} did not finish`;
  return said.length === 0 ? 'nothing to report' : said.join(', ');
}
