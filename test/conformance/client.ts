import { needsInput } from '../../src/mcp/call.js';
import type { ToolDefinition } from '../../src/mcp/definitions.js';
import { EclipticError } from '../../src/runtime/errors.js';
import { OPERATOR, Upstreaming, until } from '../upstream/harness.js';

/** The parameters that a scenario gives to its client. */
export interface Context {
  readonly client_id?: string;
  readonly client_secret?: string;
  readonly private_key_pem?: string;
  readonly signing_algorithm?: string;
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: Record<string, unknown> }[];
}

const SERVER = 'server';
/** The URL that the suite accepts as the metadata document of a client. */
const METADATA_URL = 'https://conformance-test.local/client-metadata.json';
/** Logins that one thing may take. */
const MAX_LOGINS = 3;
/** The arguments of the suite's tools. */
const ARGUMENTS = { a: 5, b: 3, region: 'us-west1', id: 'one' };
const SETTLED: ReadonlySet<string> = new Set(['running', 'needs-login', 'failed']);

/**
 * Does with a node's upstream client what a scenario for clients asks for: connects, logs in where it must, and uses
 * everything that the server offers.
 */
export async function playScenario(url: URL, context: Context, scenario: string): Promise<void> {
  const { client_id: clientId, client_secret: clientSecret } = context;
  const { private_key_pem: privateKey, signing_algorithm: algorithm } = context;
  // Without a user, the configuration says so.
  const grant = scenario.startsWith('auth/client-credentials') ? ('client_credentials' as const) : undefined;
  const own = { clientId, clientSecret, grant, privateKey, algorithm };
  const oauth = clientId === undefined ? { clientMetadataUrl: METADATA_URL } : own;
  const mesh = await Upstreaming.start({ direct: true });
  try {
    mesh.add(SERVER, { kind: 'http', url, headers: {}, oauth }, { restart: { maxCrashes: 1 } });
    await loggingIn(mesh, async () => {});
    await useEverything(mesh, context);
  } finally {
    await mesh.end();
  }
}

async function useEverything(mesh: Upstreaming, { toolCalls }: Context): Promise<void> {
  const { mcp } = mesh.node;
  const options = { caller: OPERATOR, capabilities: { elicitation: { form: {} } } };
  const listed = mcp.list('tool', OPERATOR);
  // One tool wants to be shown how another's schema arrived.
  const schema = (listed[0]?.definition as ToolDefinition | undefined)?.inputSchema;
  const tools = listed.map(({ key }) => ({ name: key, arguments: { ...ARGUMENTS, schema } }));
  const calls = (toolCalls ?? tools).map(({ name, arguments: args }) =>
    loggingIn(mesh, async () => {
      const ask = (more: object) => mcp.callTool(`${SERVER}.${name}`, args, { ...options, ...more });
      let result = await ask({});
      while (needsInput(result)) {
        const { inputRequests = {}, requestState } = result;
        const answers = Object.keys(inputRequests).map((key) => [key, { action: 'accept', content: {} }]);
        result = await ask({ answers: Object.fromEntries(answers), ...(requestState && { state: requestState }) });
      }
    }),
  );
  const refused = (await Promise.allSettled(calls)).filter((call) => call.status === 'rejected');
  // A single failure may belong to the scenario; if every call fails, the client is at fault.
  if (refused.length > 0 && refused.length === calls.length) throw refused[0]!.reason;
  for (const { key } of mcp.list('resource', OPERATOR)) await mcp.readResource(key, options);
  for (const { key } of mcp.list('prompt', OPERATOR)) await mcp.getPrompt(`${SERVER}.${key}`, {}, options);
}

/** Does something with the server; when it needs a login, logs in as a user would, and does it again. */
async function loggingIn(mesh: Upstreaming, work: () => Promise<void>): Promise<void> {
  for (let logins = 0; ; logins++) {
    try {
      await connected(mesh);
      return await work();
    } catch (error) {
      const needed = error instanceof EclipticError && error.code === 'LOGIN_REQUIRED';
      if (!needed || logins >= MAX_LOGINS) throw error;
    }
    await logIn(mesh);
  }
}

async function connected(mesh: Upstreaming): Promise<void> {
  await until(() => SETTLED.has(mesh.status(SERVER).state));
  const { state, reason } = mesh.status(SERVER);
  if (state === 'needs-login') throw new EclipticError('LOGIN_REQUIRED', reason ?? state);
  if (state === 'failed') throw new Error(reason ?? state);
}

/** The suite's authorization servers agree at once, and send the browser back. */
async function logIn(mesh: Upstreaming): Promise<void> {
  const { url, done } = await mesh.upstreams.login(SERVER);
  const { headers } = await fetch(url, { redirect: 'manual' });
  await mesh.logins.finish(new URL(headers.get('location')!).searchParams);
  await done;
}
