import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { type FetchAnswer, guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { isLoopback } from '../../system/fetch/target.js';
import type { Environment } from '../../system/process/environment.js';
import type { FoundWorker, FoundWorkers, ModelWorkerConfig, UnusableWorker } from './found.js';

/** An OpenAI-compatible endpoint that may be there. */
interface Endpoint {
  readonly name: string;
  readonly baseUrl: string;
  /** The value is sent to this endpoint only, and never written or printed. */
  readonly key?: { readonly value: string; readonly reference: string };
  /** A usual port, on which another program may listen as well. */
  readonly guessed?: true;
  /** The command that gives it a first model. */
  readonly firstModel?: string;
  /** The model that the environment names for it. */
  readonly model?: string | undefined;
}

const USUAL: readonly Endpoint[] = [
  { name: 'Ollama', baseUrl: 'http://127.0.0.1:11434/v1', guessed: true, firstModel: 'ollama pull qwen3' },
  { name: 'LM Studio', baseUrl: 'http://127.0.0.1:1234/v1', guessed: true, firstModel: 'lms get qwen3' },
  { name: 'llama-server', baseUrl: 'http://127.0.0.1:8080/v1', guessed: true },
  { name: 'vLLM', baseUrl: 'http://127.0.0.1:8000/v1', guessed: true },
];

const LOCAL_MS = 1_000;
/** A name has to be resolved, and TLS negotiated. */
const REMOTE_MS = 5_000;
const MAX_BYTES = 4 * 1_048_576;
const MAX_NAME = 256;
const SHOWN_NAMES = 5;
/** Models that do not converse. */
const OTHER_MODELS =
  /embed|rerank|\bbge\b|minilm|whisper|\btts\b|dall-e|moderation|transcri|speech|realtime|-image|\bsora\b|\baudio\b/i;

export interface ModelOptions {
  /** Endpoints to try instead of the usual ports. */
  readonly endpoints?: readonly string[] | undefined;
  /** The model to use, where an endpoint has it. */
  readonly model?: string | undefined;
  /** Contact no endpoint on another machine. */
  readonly onlyLocal?: boolean;
  /** How long an endpoint may take. Default: 1 s on this machine, 5 s elsewhere. */
  readonly limitMs?: number;
}

/** Models on this machine and at the endpoint that the environment names. No other place is contacted. */
export async function findModels(
  runtime: Runtime,
  env: Environment,
  options: ModelOptions = {},
): Promise<FoundWorkers> {
  const { endpoints } = options;
  const { named, unusable } = namedByEnvironment(env);
  const given = endpoints?.map((url): Endpoint => ({ name: 'endpoint', baseUrl: trimmed(url) }));
  const known = new Set<string>();
  const all = [...named, ...(given ?? USUAL)].filter(({ baseUrl }) => {
    const key = sameAs(baseUrl);
    return !known.has(key) && known.add(key);
  });
  const results = await Promise.all(all.map((one) => look(runtime, one, options)));
  return {
    workers: results.flatMap((result) => (result && 'config' in result ? [result] : [])),
    unusable: [...unusable, ...results.flatMap((result) => (result && 'reason' in result ? [result] : []))],
  };
}

function namedByEnvironment({ OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL }: Environment): {
  named: Endpoint[];
  unusable: UnusableWorker[];
} {
  if (OPENAI_BASE_URL) {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the configuration refers to the environment
    const key = OPENAI_API_KEY ? { value: OPENAI_API_KEY, reference: '${OPENAI_API_KEY}' } : undefined;
    const endpoint = { name: 'OPENAI_BASE_URL', baseUrl: trimmed(OPENAI_BASE_URL), model: OPENAI_MODEL || undefined };
    return { named: [{ ...endpoint, ...(key && { key }) }], unusable: [] };
  }
  if (!OPENAI_API_KEY) return { named: [], unusable: [] };
  const reason = 'no OPENAI_BASE_URL says where the key belongs, and keys are sent nowhere by guess';
  const fix = 'OPENAI_BASE_URL=https://api.openai.com/v1 ecliptic staff';
  return { named: [], unusable: [{ kind: 'model', title: 'OPENAI_API_KEY', reason, fix }] };
}

async function look(
  runtime: Runtime,
  endpoint: Endpoint,
  { model: wanted, onlyLocal, limitMs }: ModelOptions,
): Promise<FoundWorker | UnusableWorker | undefined> {
  const { baseUrl, guessed } = endpoint;
  const where = placeOf(endpoint);
  const unusable = (reason: string, fix: string): UnusableWorker => ({ kind: 'model', title: where, reason, fix });
  if (!URL.canParse(baseUrl)) return unusable('it is not a URL', 'ecliptic staff --endpoint http://127.0.0.1:11434/v1');
  const url = new URL(baseUrl);
  if (url.username || url.password || url.search) {
    return unusable('its URL contains a secret or a query', 'put the secret into OPENAI_API_KEY');
  }
  if (onlyLocal && !isLocal(url)) return unusable('named by OPENAI_BASE_URL; not contacted', 'ecliptic staff');
  let answer: FetchAnswer;
  try {
    answer = await guardedFetch(runtime, `${baseUrl}/models`, {
      headers: { accept: 'application/json', ...(endpoint.key && { authorization: `Bearer ${endpoint.key.value}` }) },
      timeoutMs: limitMs ?? (isLocal(url) ? LOCAL_MS : REMOTE_MS),
      maxBytes: MAX_BYTES,
      redirects: 0,
      allowPrivate: true,
    });
  } catch (error) {
    const late = error instanceof EclipticError && error.code === 'FETCH_TIMEOUT';
    if (guessed && !late) return undefined;
    const reason = late ? 'it accepts connections, but did not answer in time' : (error as EclipticError).message;
    return unusable(reason, `start it; check with: curl ${baseUrl}/models`);
  }
  const body = parsed(answer.body);
  if (answer.status === 401 || answer.status === 403) {
    // Another program on a usual port may want a login as well.
    if (guessed && !isOpenAiError(body)) return undefined;
    const fix = `OPENAI_BASE_URL=${baseUrl} OPENAI_API_KEY=… ecliptic staff`;
    return unusable(endpoint.key ? 'it does not accept OPENAI_API_KEY' : 'it wants a key', fix);
  }
  const models = answer.status === 200 ? modelsIn(body) : undefined;
  if (!models) {
    if (guessed) return undefined;
    return unusable(`it answers ${answer.status} without a list of models`, `check with: curl ${baseUrl}/models`);
  }
  return chosen(endpoint, models, wanted, unusable);
}

/** A model of the endpoint: the one asked for, the one that the environment names, the only one, or a local one. */
function chosen(
  endpoint: Endpoint,
  models: readonly string[],
  wanted: string | undefined,
  unusable: (reason: string, fix: string) => UnusableWorker,
): FoundWorker | UnusableWorker {
  const { baseUrl, key, firstModel } = endpoint;
  const named = wanted ?? endpoint.model;
  const able = models.filter((id) => !OTHER_MODELS.test(id));
  const listed = `${able.slice(0, SHOWN_NAMES).join(', ')}${able.length > SHOWN_NAMES ? ', …' : ''}`;
  if (named !== undefined && !models.includes(named)) {
    const reason = `it has no model "${named}"${able.length > 0 ? `; it has ${listed}` : ''}`;
    return unusable(reason, `ecliptic staff --model ${able[0] ?? 'NAME'}`);
  }
  if (named === undefined && able.length === 0) {
    const reason = models.length === 0 ? 'it has no model' : 'it has no model that converses';
    return unusable(reason, firstModel ?? 'start it with a chat model');
  }
  if (named === undefined && able.length > 1 && !isLocal(new URL(baseUrl))) {
    // Prices differ a hundredfold, so no model of a vendor is chosen by guess.
    return unusable(`it has ${able.length} models (${listed})`, 'ecliptic staff --model NAME');
  }
  const model = named ?? able[0]!;
  const others = able.filter((id) => id !== model).length;
  const more = named === undefined && others > 0 ? `; ${others} more, choose with --model` : '';
  const config: ModelWorkerConfig = { baseUrl, model, ...(key && { apiKey: key.reference }), cwd: '.' };
  return { kind: 'model', title: `${model} at ${placeOf(endpoint)}`, why: `answers${more}`, config: { model: config } };
}

/** The ids in a list of models; undefined where the answer is no such list. */
function modelsIn(body: unknown): string[] | undefined {
  if (typeof body !== 'object' || body === null || !('data' in body)) return undefined;
  const { data } = body;
  // Ollama without a model.
  if (data === null) return [];
  if (!Array.isArray(data)) return undefined;
  const ids = data.map((one: { id?: unknown } | null) => one?.id);
  // The configuration would replace ${VAR} in a name by a value of the environment, and send it to the endpoint.
  return ids.filter((id): id is string => {
    return typeof id === 'string' && id !== '' && id.length <= MAX_NAME && !id.includes('${') && !hasControl(id);
  });
}

function hasControl(text: string): boolean {
  return /\p{C}/u.test(text);
}

function isOpenAiError(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'error' in body;
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

function placeOf({ name, baseUrl, guessed }: Endpoint): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  const place = url ? url.host : cutText(baseUrl, 80);
  return guessed ? `${place} (${name})` : place;
}

function isLocal({ hostname }: URL): boolean {
  return isLoopback(hostname.replace(/^\[|\]$/g, ''));
}

function trimmed(url: string): string {
  return url.trim().replace(/\/+$/, '');
}

/** Names of this machine are the same place. */
function sameAs(baseUrl: string): string {
  if (!URL.canParse(baseUrl)) return baseUrl;
  const url = new URL(baseUrl);
  return isLocal(url) ? `local:${url.port}${url.pathname}` : url.href;
}
