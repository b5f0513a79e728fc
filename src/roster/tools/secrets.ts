import { evidenceOf, type Finding, isSample, type Severity } from './finding.js';
import type { SourceFile } from './workspace-files.js';

interface SecretRule {
  readonly id: string;
  readonly what: string;
  readonly severity: Severity;
  /** A text that every match contains, in lower case: the expression runs only on lines that have it. */
  readonly hint: string;
  /** Finds the secret as its last group. No part of it may match in two ways: it runs on text of strangers. */
  readonly pattern: RegExp;
  /** Bits for each character that a real one has at least. */
  readonly entropy?: number;
}

const rule = (
  id: string,
  what: string,
  hint: string,
  pattern: RegExp,
  options: { severity?: Severity; entropy?: number } = {},
): SecretRule => ({ id, what, hint: hint.toLowerCase(), pattern, severity: 'critical', ...options });

/** Formats by which their issuers make secrets recognisable. */
const KNOWN: readonly SecretRule[] = [
  rule('aws-access-key', 'an access key of AWS', '', /\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b/, { entropy: 3 }),
  rule('github-token', 'a token of GitHub', 'gh', /\b(gh[pousr]_[A-Za-z0-9]{36,255})\b/, { entropy: 3.5 }),
  rule('github-token', 'a token of GitHub', 'github_pat_', /\b(github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b/, {
    entropy: 3.5,
  }),
  rule('gitlab-token', 'a token of GitLab', 'glpat-', /\b(glpat-[\w-]{20,64})(?![\w-])/, { entropy: 3.3 }),
  rule('npm-token', 'a token of npm', 'npm_', /\b(npm_[A-Za-z0-9]{36})\b/, { entropy: 3.5 }),
  rule('npm-token', 'a token of an npm registry', '_authtoken', /:_authToken\s*=\s*"?([\w.+/=-]{16,512})"?\s*$/, {
    entropy: 3,
  }),
  rule('slack-token', 'a token of Slack', 'xox', /\b(xox[abeoprs]-(?:\d{6,14}-)+[A-Za-z0-9-]{16,80})\b/, {
    entropy: 3,
  }),
  rule(
    'slack-webhook',
    'a webhook of Slack',
    'hooks.slack.com',
    /(https:\/\/hooks\.slack\.com\/services\/T[A-Z0-9]{8,12}\/B[A-Z0-9]{8,12}\/[A-Za-z0-9]{20,32})/,
    { severity: 'high', entropy: 3.5 },
  ),
  rule('stripe-key', 'a live key of Stripe', '_live_', /\b((?:sk|rk)_live_[A-Za-z0-9]{20,247})\b/, { entropy: 3.3 }),
  rule('openai-key', 'a key of OpenAI', 't3blbkfj', /\b(sk-[\w-]{10,200}T3BlbkFJ[\w-]{10,200})(?![\w-])/, {
    entropy: 3.5,
  }),
  rule('anthropic-key', 'a key of Anthropic', 'sk-ant-', /\b(sk-ant-(?:api|admin)\d\d-[\w-]{80,120})(?![\w-])/, {
    entropy: 3.5,
  }),
  rule('google-api-key', 'a key of Google', 'aiza', /\b(AIza[\w-]{35})(?![\w-])/, { severity: 'high', entropy: 3.5 }),
  rule('sendgrid-key', 'a key of SendGrid', 'sg.', /\b(SG\.[\w-]{22}\.[\w-]{43})(?![\w-])/, { entropy: 3.5 }),
  rule('huggingface-token', 'a token of Hugging Face', 'hf_', /\b(hf_[A-Za-z]{34})\b/, { entropy: 3.5 }),
  rule('pypi-token', 'a token of PyPI', 'pypi-', /\b(pypi-AgEIcHlwaS5vcmc[\w-]{50,255})(?![\w-])/, { entropy: 3.5 }),
  rule('digitalocean-token', 'a token of DigitalOcean', 'do', /\b(do[opr]_v1_[a-f0-9]{64})\b/, { entropy: 3 }),
  rule('telegram-token', 'a token of a Telegram bot', ':aa', /\b(\d{8,10}:AA[\w-]{33})(?![\w-])/, {
    severity: 'high',
    entropy: 3.5,
  }),
  rule(
    'password-in-url',
    'a password in a URL',
    '://',
    /\b(?:https?|postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|ftp|smtps?):\/\/[^\s:@/'"`<>{}$()]{1,64}:([^\s:@/'"`<>{}$()]{8,128})@[\w.-]{1,253}/,
    { severity: 'high', entropy: 2.8 },
  ),
];

/** A name that says what the value is, and a literal value. */
const ASSIGNED =
  /(?:^|[^\w-])["']?([\w.-]{0,40}?(?:secret|token|passw(?:or)?d|api[_-]?key|private[_-]?key|credential)[\w-]{0,24})["']?\s{0,4}(?::|=|:=|=>)\s{0,4}(?:"([^"\\\s]{12,200})"|'([^'\\\s]{12,200})')/i;
/** The same without quotes, in files of settings. */
const SETTING =
  /^\s{0,16}(?:-\s{1,4})?(?:(?:export|ENV|ARG)\s{1,4})?([\w.-]{0,40}?(?:secret|token|passw(?:or)?d|api[_-]?key|private[_-]?key|credential)[\w-]{0,24})\s{0,4}[=:]\s{0,4}([^\s"'#;$*&!|>`][^\s"'#;]{11,199})\s*$/i;
const SETTINGS_FILE =
  /(^|\/)(\.env(\.[\w-]+)?|[\w.-]+\.(env|properties|ini|cfg|conf|toml|ya?ml|sh|bash|zsh|dockerfile)|(docker|container)file(\.[\w-]+)?|credentials|\.netrc|\.pypirc|\.(bash|zsh)rc|\.profile)$/i;
const ASSIGNMENT_HINT = /secret|token|passw|api[_-]?key|private[_-]?key|credential/i;
/** Names of things about secrets that are none. */
const NAMES_NO_SECRET =
  /(name|url|uri|path|file|field|header|type|id|prefix|suffix|regex|pattern|label|title|message|text|placeholder|hint|error|code|length|size|expir\w*|count|kind|class|style|selector|event|action|endpoint|public|param\w*|env|var|ref|source|provider|format|policy|algorithm|method|storage|cookie|alias|address|hash|digest|fingerprint)s?$/i;
const NO_SECRET =
  /example|sample|dummy|fake|placeholder|changeme|change[_-]me|your[_-]|my[_-]?(?:secret|token|password|api)|test|demo|secret|password|xxx|\*\*\*|\.\.\.|redacted|123456|abcdef|foobar|lorem|undefined|process\.env|os\.environ|getenv|\$\{|\{\{|<[\w -]+>|%[({]\w/i;
const PRIVATE_KEY = /-----BEGIN ((?:[A-Z]{2,9} ){0,3}PRIVATE KEY(?: BLOCK)?)-----/;
const KEY_BODY = /^[\sA-Za-z0-9+/=:,.\\"'n-]{0,200}/;
const ASSIGNED_ENTROPY = 3.5;
const MAX_LINE_CHARS = 4_000;
const MAX_OF_FILE = 50;
const GENERATED =
  /(^|\/)(package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lock|Cargo\.lock|poetry\.lock|uv\.lock|Gemfile\.lock|composer\.lock|go\.sum|flake\.lock)$|\.(svg|map|min\.js|snap)$/;

/** ENCELADUS: secrets in the text of files. The evidence shows where a secret is, and never the secret. */
export function findSecrets(files: readonly SourceFile[]): Finding[] {
  return files.flatMap((file) => (GENERATED.test(file.path) ? [] : secretsIn(file)));
}

function secretsIn({ path, text }: SourceFile): Finding[] {
  const found: Finding[] = [];
  const sample = isSample(path);
  const lines = text.split('\n');
  for (let at = 0; at < lines.length && found.length < MAX_OF_FILE; at++) {
    const line = lines[at]!;
    const match = line.length > MAX_LINE_CHARS ? inLongLine(line, sample) : inLine(line, path, sample, lines, at);
    if (match) found.push(findingOf(path, at + 1, line, match));
  }
  return found;
}

interface Match {
  readonly rule: string;
  readonly what: string;
  readonly severity: Severity;
  readonly secret: string;
}

function inLine(line: string, path: string, sample: boolean, lines: readonly string[], at: number): Match | undefined {
  const key = line.includes('PRIVATE KEY') ? privateKey(line, lines, at, sample) : undefined;
  if (key) return key;
  return knownFormat(line, sample) ?? (sample ? undefined : assigned(line, path));
}

/** A line of generated or minified text: only formats that cannot be anything else. */
function inLongLine(line: string, sample: boolean): Match | undefined {
  for (let start = 0; start < line.length; start += MAX_LINE_CHARS - 300) {
    const match = knownFormat(line.slice(start, start + MAX_LINE_CHARS), sample);
    if (match && match.rule !== 'secret/password-in-url') return match;
  }
  return undefined;
}

function knownFormat(line: string, sample: boolean): Match | undefined {
  const lower = line.toLowerCase();
  for (const { id, what, hint, pattern, severity, entropy = 0 } of KNOWN) {
    if (!lower.includes(hint)) continue;
    const secret = pattern.exec(line)?.at(-1);
    if (secret === undefined || entropyOf(secret) < entropy || isPlaceholder(secret)) continue;
    // Tests are full of URLs with invented passwords, and no other rule can tell them from real ones.
    if (id === 'password-in-url' && (sample || isLocal(line))) continue;
    return { rule: `secret/${id}`, what, severity: sample ? 'medium' : severity, secret };
  }
  return undefined;
}

/** A key whose text follows: on the lines below, or behind escaped line breaks. */
function privateKey(line: string, lines: readonly string[], at: number, sample: boolean): Match | undefined {
  const begin = PRIVATE_KEY.exec(line);
  // Keys of tests are made for them.
  if (!begin || sample) return undefined;
  const rest = line.slice(begin.index + begin[0].length);
  const body = KEY_BODY.exec(`${rest}\n${lines.slice(at + 1, at + 4).join('\n')}`)?.[0] ?? '';
  const longest = Math.max(...body.split(/\\n|[^A-Za-z0-9+/=]/).map(({ length }) => length));
  if (longest < 32) return undefined;
  return { rule: 'secret/private-key', what: 'a private key', severity: 'critical', secret: body };
}

function assigned(line: string, path: string): Match | undefined {
  if (!ASSIGNMENT_HINT.test(line)) return undefined;
  const [, name, double, single] =
    ASSIGNED.exec(line) ?? (SETTINGS_FILE.test(path) ? SETTING.exec(line) : undefined) ?? [];
  const secret = double ?? single;
  if (name === undefined || secret === undefined || NAMES_NO_SECRET.test(name) || !isRandom(secret)) return undefined;
  return { rule: 'secret/assigned', what: `a secret as "${name}"`, severity: 'high', secret };
}

/** Words, paths, URLs and identifiers are no secrets; a random text has digits, letters and many different ones. */
function isRandom(text: string): boolean {
  if (isPlaceholder(text) || /[\s/\\]{2}|^[./@#]|^https?:|[()[\]{}<>]/.test(text)) return false;
  if (!/\d/.test(text) || !/[A-Za-z]/.test(text)) return false;
  // Words that are joined: `sha256-of-the-user`, `user.token.v2`, `--color-token-1`.
  if (/^(?:[A-Za-z]+|\d+)(?:[-_.:/ ](?:[A-Za-z]+|[A-Za-z]*\d{1,4}))*$/.test(text)) return false;
  return entropyOf(text) >= ASSIGNED_ENTROPY;
}

function isPlaceholder(text: string): boolean {
  return NO_SECRET.test(text) || /(.)\1{5}/.test(text) || /^[a-z]+$/i.test(text);
}

function isLocal(line: string): boolean {
  return /@(localhost|127\.[\d.]+|0\.0\.0\.0|host(name)?|server|db|database|postgres|redis|mysql|mongo\w*|rabbitmq)(?![\w.-])|example\.|user(name)?:|:pass/i.test(
    line,
  );
}

/** Shannon's entropy of the characters, in bits. */
export function entropyOf(text: string): number {
  const counts = new Map<string, number>();
  for (const char of text) counts.set(char, (counts.get(char) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length);
  return bits;
}

function findingOf(file: string, line: number, text: string, { rule, what, severity, secret }: Match): Finding {
  const message = `${what} is in the file; revoke it, and keep it outside the repository`;
  const evidence = rule === 'secret/private-key' ? PRIVATE_KEY.exec(text)![0] : redacted(text, secret);
  return { agent: 'enceladus', rule, severity, file, line, message, evidence };
}

/** The line around the secret. Other secrets of the line are hidden too: all long words behind the first one. */
function redacted(line: string, secret: string): string {
  const at = line.indexOf(secret);
  const before = line.slice(Math.max(0, at - 80), at).replace(/[\w+/=.-]{24,}/g, '[…]');
  return evidenceOf(`${before}[${secret.length} characters removed]`);
}
