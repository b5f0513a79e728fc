import { VERSION } from '../../runtime/package.js';
import type { Finding, Severity } from '../tools/finding.js';
import { shownText } from '../tools/tool-text.js';
import type { ReviewReport } from './review-report.js';

const LEVELS: Readonly<Record<Severity, 'error' | 'warning' | 'note'>> = {
  critical: 'error',
  high: 'error',
  medium: 'warning',
  low: 'note',
  info: 'note',
};
/** Severities as code hosts sort them. */
const SCORES: Readonly<Record<Severity, string>> = {
  critical: '9.5',
  high: '8.0',
  medium: '5.5',
  low: '3.0',
  info: '0.0',
};

/** The findings in SARIF 2.1.0, for code hosts and editors. */
export function reviewSarif({ findings, parts }: ReviewReport): object {
  const rules = [...new Map(findings.map((finding) => [finding.rule, finding])).values()];
  const index = new Map(rules.map(({ rule }, at) => [rule, at]));
  const failed = parts.filter((part) => part.failed !== undefined);
  return {
    $schema: 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'ecliptic', version: VERSION, rules: rules.map(ruleOf) } },
        columnKind: 'utf16CodeUnits',
        results: findings.map((finding) => resultOf(finding, index.get(finding.rule)!)),
        invocations: [
          {
            executionSuccessful: failed.length === 0,
            toolExecutionNotifications: failed.map(({ agent, summary }) => ({
              level: 'error',
              message: { text: `${agent}: ${summary}` },
            })),
          },
        ],
      },
    ],
  };
}

function ruleOf({ rule, severity, agent }: Finding): object {
  return {
    id: rule,
    shortDescription: { text: `${rule.replaceAll(/[/-]/g, ' ')}, found by ${agent.toUpperCase()}` },
    defaultConfiguration: { level: LEVELS[severity] },
    properties: {
      tags: [rule.split('/')[0]],
      ...(rule.startsWith('secret/') && { 'security-severity': SCORES[severity] }),
    },
  };
}

function resultOf({ rule, severity, file, line, message, evidence, agent }: Finding, ruleIndex: number): object {
  return {
    ruleId: rule,
    ruleIndex,
    level: LEVELS[severity],
    message: { text: shownText(message) },
    locations: [
      {
        physicalLocation: {
          artifactLocation: { uri: file.split('/').map(encodeURIComponent).join('/'), uriBaseId: '%SRCROOT%' },
          region: { startLine: line, snippet: { text: evidence } },
        },
      },
    ],
    properties: { agent, severity },
  };
}
