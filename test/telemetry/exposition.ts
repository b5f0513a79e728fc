/** A strict reader of Prometheus' text format 0.0.4, which shares no code with the writer. */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly samples: Sample[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const SUFFIXES = ['_bucket', '_sum', '_count'];

/** Throws at the first fault. */
export function readExposition(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  let help: { name: string; text: string } | undefined;
  let current: Family | undefined;
  for (const line of text.slice(0, -1).split('\n')) {
    const fault = (what: string): never => {
      throw new Error(`${what}: ${line}`);
    };
    if (line.startsWith('# HELP ')) {
      const [, name, said] = /^# HELP (\S+) (.+)$/.exec(line) ?? fault('bad HELP');
      help = { name: name!, text: said! };
    } else if (line.startsWith('# TYPE ')) {
      const [, name, type] = /^# TYPE (\S+) (counter|gauge|histogram|summary|untyped)$/.exec(line) ?? fault('bad TYPE');
      if (!NAME.test(name!)) fault('bad name');
      if (help?.name !== name) fault('TYPE without its HELP');
      if (families.has(name!)) fault('a family twice');
      if (type === 'counter' && !name!.endsWith('_total')) fault('a counter without _total');
      current = { name: name!, type: type!, help: help!.text, samples: [] };
      families.set(name!, current);
    } else {
      const sample = readSample(line) ?? fault('bad sample');
      const base = current?.type === 'histogram' ? withoutSuffix(sample.name) : sample.name;
      if (base !== current?.name) fault('a sample outside of its family');
      const key = `${sample.name} ${JSON.stringify(Object.entries(sample.labels).sort())}`;
      if (seen.has(key)) fault('a sample twice');
      seen.add(key);
      if (current!.type === 'counter' && !(sample.value >= 0)) fault('a negative counter');
      current!.samples.push(sample);
    }
  }
  for (const family of families.values()) if (family.type === 'histogram') checkHistogram(family);
  return families;
}

function withoutSuffix(name: string): string {
  const suffix = SUFFIXES.find((one) => name.endsWith(one));
  return suffix === undefined ? name : name.slice(0, -suffix.length);
}

function readSample(line: string): Sample | undefined {
  const [, name, braces, rest] = /^([^\s{]+)(\{.*\})? (\S+)$/.exec(line) ?? [];
  if (name === undefined || rest === undefined || !NAME.test(name)) return undefined;
  const value = rest === '+Inf' ? Number.POSITIVE_INFINITY : rest === 'NaN' ? Number.NaN : Number(rest);
  if (Number.isNaN(value) && rest !== 'NaN') return undefined;
  const labels = braces === undefined ? {} : readLabels(braces.slice(1, -1));
  return labels && { name, labels, value };
}

function readLabels(text: string): Record<string, string> | undefined {
  const labels: Record<string, string> = {};
  let at = 0;
  while (at < text.length) {
    const equals = text.indexOf('="', at);
    const label = text.slice(at, equals);
    if (equals < 0 || !LABEL_NAME.test(label) || label in labels) return undefined;
    let value = '';
    for (at = equals + 2; text[at] !== '"'; at++) {
      if (at >= text.length) return undefined;
      if (text[at] !== '\\') {
        value += text[at];
        continue;
      }
      at++;
      const meant = { n: '\n', '"': '"', '\\': '\\' }[text[at]!];
      if (meant === undefined) return undefined;
      value += meant;
    }
    labels[label] = value;
    at++;
    if (at < text.length && text[at] !== ',') return undefined;
    at++;
  }
  return labels;
}

function checkHistogram({ name, samples }: Family): void {
  const buckets = samples.filter((sample) => sample.name === `${name}_bucket`);
  const bounds = buckets.map(({ labels: { le } }) => (le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le)));
  const counts = buckets.map(({ value }) => value);
  const rises = (list: readonly number[], strictly: boolean) =>
    list.every((value, at) => at === 0 || (strictly ? value > list[at - 1]! : value >= list[at - 1]!));
  if (!rises(bounds, true) || bounds.some(Number.isNaN)) throw new Error(`${name}: bounds do not rise`);
  if (!rises(counts, false)) throw new Error(`${name}: counts are not cumulative`);
  if (bounds.at(-1) !== Number.POSITIVE_INFINITY) throw new Error(`${name}: there is no bucket +Inf`);
  const count = samples.find((sample) => sample.name === `${name}_count`)?.value;
  if (count !== counts.at(-1)) throw new Error(`${name}: the bucket +Inf is not the count`);
  if (!samples.some((sample) => sample.name === `${name}_sum`)) throw new Error(`${name}: there is no sum`);
}
