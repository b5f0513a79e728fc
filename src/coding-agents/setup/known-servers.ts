import { join } from 'node:path';
import { readUtf8 } from '../../system/files/text-file.js';
import { CLIENTS, type Machine } from './clients.js';
import { readJson } from './entries.js';

/** An MCP server in the configuration of a client on this machine. */
export interface KnownServer {
  readonly name: string;
  /** The clients that have it, by title. */
  readonly clients: readonly string[];
  readonly file: string;
  /** As `mcpServers` of `ecliptic.json` takes it; values that may be secret are references to variables. */
  readonly config: ServerConfig;
  /** The variables that the configuration refers to. */
  readonly variables: readonly string[];
}

export interface ServerConfig {
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly type?: 'http' | 'sse';
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

type Entries = Readonly<Record<string, unknown>>;

const OURS = 'ecliptic';
/** Where clients keep their servers, other than under `mcpServers`. */
const KEYS: Readonly<Record<string, string>> = { vscode: 'servers', opencode: 'mcp' };

/** The MCP servers of the clients on this machine and of the folder's `.mcp.json`, each once. Files are only read. */
export function knownServers(machine: Machine, folder: string): KnownServer[] {
  const found = CLIENTS.filter((client) => client.isHere(machine)).flatMap(({ id, title, file: fileOf }) => {
    const file = fileOf(machine);
    if (id === 'codex') return read(title, file, tomlServers);
    return read(title, file, (text) => jsonServers(text, KEYS[id] ?? 'mcpServers', folder));
  });
  const project = join(folder, '.mcp.json');
  const all = [...found, ...read('.mcp.json', project, (text) => jsonServers(text, 'mcpServers', folder))];
  const byText = new Map<string, KnownServer>();
  for (const server of all) {
    const key = JSON.stringify([server.name, server.config]);
    const known = byText.get(key);
    byText.set(key, known ? { ...known, clients: [...known.clients, ...server.clients] } : server);
  }
  return [...byText.values()];
}

/** A file that is missing or cannot be read has no servers: another client may still have some. */
function read(client: string, file: string, entries: (text: string) => Entries): KnownServer[] {
  let servers: Entries;
  try {
    const text = readUtf8(file);
    servers = text?.trim() ? entries(text) : {};
  } catch {
    return [];
  }
  return Object.entries(servers).flatMap(([name, value]) => {
    const config = name === OURS ? undefined : configOf(value);
    if (!config) return [];
    return [{ name, clients: [client], file, ...withoutSecrets(name, config) }];
  });
}

function jsonServers(text: string, key: string, folder: string): Entries {
  const file = readJson(text) as Record<string, unknown>;
  // Claude Code has servers of one project beside those of all.
  const project = record(record(file.projects)[folder]);
  return { ...record(file[key]), ...record(project[key]) };
}

/** The tables `[mcp_servers.NAME]`, with strings and lists of strings, which are written as in JSON. */
function tomlServers(text: string): Entries {
  const servers: Record<string, Record<string, unknown>> = {};
  let table: Record<string, unknown> | undefined;
  for (const line of text.split(/\r?\n/)) {
    const header = /^\s*\[([^\]]*)\]/.exec(line)?.[1]?.replace(/\s/g, '');
    const [, name, part] = /^mcp_servers\."?([\w-]+)"?(\.(?:env|http_headers))?$/.exec(header ?? '') ?? [];
    if (header !== undefined) table = undefined;
    if (name !== undefined) {
      servers[name] ??= {};
      table = servers[name];
      if (part !== undefined) table = ownRecord(table, part === '.env' ? 'env' : 'headers');
      continue;
    }
    const [, key, value] = /^\s*([\w-]+)\s*=\s*(.+?)\s*$/.exec(line) ?? [];
    if (!table || key === undefined) continue;
    try {
      table[key] = JSON.parse(value!);
    } catch {
      // Another kind of value of TOML, which is not needed here.
    }
  }
  return servers;
}

function ownRecord(table: Record<string, unknown>, key: string): Record<string, unknown> {
  const made: Record<string, unknown> = {};
  table[key] = made;
  return made;
}

/** The forms of all clients as one; undefined for an entry that is switched off or of another form. */
function configOf(value: unknown): ServerConfig | undefined {
  const given = record(value);
  if (given.enabled === false || given.disabled === true) return undefined;
  const [program, ...words] = strings([given.command].flat()) ?? [];
  const env = texts(given.env ?? given.environment);
  if (program !== undefined) {
    const args = [...words, ...(strings(given.args) ?? [])];
    const cwd = typeof given.cwd === 'string' ? given.cwd : undefined;
    return {
      command: program,
      ...(args.length > 0 && { args }),
      ...(env && { env }),
      ...(cwd !== undefined && { cwd }),
    };
  }
  const url = [given.url, given.httpUrl, given.serverUrl].find((one): one is string => typeof one === 'string');
  if (url === undefined) return undefined;
  const headers = texts(given.headers);
  return { type: given.type === 'sse' ? 'sse' : 'http', url, ...(headers && { headers }) };
}

/** Secrets stay where they are: the configuration of a project is shared and committed. */
function withoutSecrets(name: string, config: ServerConfig): Pick<KnownServer, 'config' | 'variables'> {
  const variables: string[] = [];
  const reference = (key: string, value: string, variable: string): [string, string] => {
    if (isHarmless(key, value)) return [key, value];
    if (!variables.includes(variable)) variables.push(variable);
    return [key, `\${${variable}}`];
  };
  const env = Object.entries(config.env ?? {}).map(([key, value]) => reference(key, value, key));
  const prefix = name.replace(/\W/g, '_').toUpperCase();
  const headers = Object.entries(config.headers ?? {}).map(([key, value]) =>
    reference(key, value, `${prefix}_${key.replace(/\W/g, '_').toUpperCase()}`),
  );
  return {
    config: {
      ...config,
      ...(env.length > 0 && { env: Object.fromEntries(env) }),
      ...(headers.length > 0 && { headers: Object.fromEntries(headers) }),
    },
    variables,
  };
}

const SECRET =
  /(token|secret|password|api[-_]?key|bearer)[=: ]\S|^(sk|ghp|gho|xox[abp]|glpat)[-_]\w{8}|[?&][^=]*(key|token)=|:\/\/[^/]*@/i;

/** A switch, a number, a plain word, a path or a plain URL, under a name that does not speak of a secret. */
function isHarmless(key: string, value: string): boolean {
  if (/key|token|secret|pass|auth|cred|cookie/i.test(key)) return value === '';
  return /^(\d{1,9}|[a-z][a-z-]{0,20}|[~.]{0,2}\/[\w./-]*|https?:\/\/[\w.:/-]+|)$/.test(value);
}

/** Does a word of the command or the URL look like a secret? Such a server is not copied. */
export function holdsSecret({ command = '', args = [], url = '' }: ServerConfig): boolean {
  return [command, ...args, url].some((word) => SECRET.test(word));
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function texts(value: unknown): Record<string, string> | undefined {
  const entries = Object.entries(record(value)).map(([key, one]): [string, string] => [key, String(one)]);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

function strings(value: unknown): string[] | undefined {
  return Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined;
}
