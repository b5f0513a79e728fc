import { EclipticError } from '../runtime/errors.js';

export interface OtlpSettings {
  /** The collector's base URL; signals are posted to `/v1/traces` and `/v1/metrics` below it. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  /** The share of traces that begin here and are recorded. */
  readonly ratio: number;
  readonly genAi: boolean;
}

type Env = Readonly<Record<string, string | undefined>>;

/** The settings of the command line or the configuration, completed by OpenTelemetry's variables; undefined for none. */
export function otlpSettings(given: string | undefined, env: Env): OtlpSettings | undefined {
  // An endpoint for gRPC is another port of the collector, which does not answer HTTP.
  const off = env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_EXPORTER_OTLP_PROTOCOL === 'grpc';
  const url = given ?? (off ? undefined : env.OTEL_EXPORTER_OTLP_ENDPOINT || undefined);
  if (url === undefined) return undefined;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new EclipticError('USAGE', `the OTLP collector must be an http or https URL, not "${url}"`);
  }
  return {
    url: url.replace(/\/+$/, ''),
    headers: headersIn(env.OTEL_EXPORTER_OTLP_HEADERS ?? ''),
    serviceName: env.OTEL_SERVICE_NAME || 'ecliptic',
    ratio: ratioOf(env),
    genAi: (env.OTEL_SEMCONV_STABILITY_OPT_IN ?? '')
      .split(',')
      .some((word) => word.trim() === 'gen_ai_latest_experimental'),
  };
}

/** `name=value,name=value`, with values as in URLs. Members that are not of this form are skipped. */
function headersIn(text: string): Record<string, string> {
  const pairs = text.split(',').flatMap((member) => {
    const [, name, value] = /^\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(.*?)\s*$/.exec(member) ?? [];
    return name === undefined || value === undefined ? [] : [[name.toLowerCase(), decoded(value)] as const];
  });
  return Object.fromEntries(pairs);
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

/** Of the samplers by name, those by ratio and the two constant ones; every other one records all. */
function ratioOf({ OTEL_TRACES_SAMPLER: sampler = '', OTEL_TRACES_SAMPLER_ARG: given }: Env): number {
  if (/always_off$/.test(sampler)) return 0;
  const ratio = Number(given);
  return /traceidratio$/.test(sampler) && given !== undefined && ratio >= 0 && ratio <= 1 ? ratio : 1;
}
