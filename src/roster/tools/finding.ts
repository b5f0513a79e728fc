/** From least to most severe. An `info` is an observation, and no fault. */
export const SEVERITIES = ['info', 'low', 'medium', 'high', 'critical'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** A fact about one place in a workspace, with the text that shows it. */
export interface Finding {
  /** The agent of the roster whose tool found it. */
  readonly agent: string;
  /** The check, such as `secret/private-key`. */
  readonly rule: string;
  readonly severity: Severity;
  /** The path within the workspace, with `/`. */
  readonly file: string;
  /** From 1 on. */
  readonly line: number;
  readonly message: string;
  /** The text of that place, or the numbers behind the finding. Never a secret. */
  readonly evidence: string;
}

export function atLeast(severity: Severity, least: Severity): boolean {
  return SEVERITIES.indexOf(severity) >= SEVERITIES.indexOf(least);
}

/** The most severe first, then by place. */
export function byImportance(a: Finding, b: Finding): number {
  const rank = SEVERITIES.indexOf(b.severity) - SEVERITIES.indexOf(a.severity);
  if (rank !== 0) return rank;
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return a.line - b.line || (a.rule < b.rule ? -1 : 1);
}

const MAX_EVIDENCE_CHARS = 200;

/** A line of a file as evidence: trimmed, cut, and without control characters. */
export function evidenceOf(line: string): string {
  // Cut before the trim: a line may be the whole of a large file.
  const text = line
    .slice(0, 4 * MAX_EVIDENCE_CHARS)
    .trim()
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is taken out
    .replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ');
  return text.length > MAX_EVIDENCE_CHARS ? `${text.slice(0, MAX_EVIDENCE_CHARS - 1)}…` : text;
}

/** A test, an example or a sample: text that only looks like the real thing is usual there. */
export function isSample(path: string): boolean {
  return (
    /(^|\/)(tests?|__tests__|specs?|fixtures?|__fixtures__|testdata|mocks?|__mocks__|examples?|samples?|benchmarks?|bench|e2e)\//i.test(
      path,
    ) ||
    /([._-](test|spec|fixture|mock|example|sample|bench)s?\.[\w.]+|\.(example|sample|template|dist))$/i.test(path) ||
    /(^|\/)(test_[^/]*|[^/]*_test\.\w+|conftest\.py)$/i.test(path)
  );
}
