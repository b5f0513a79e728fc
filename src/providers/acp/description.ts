import { EclipticError } from '../../runtime/errors.js';
import type { InitializeResponse, PromptRequest } from './sdk.js';

/** An agent's answer to `initialize`. */
export interface AcpDescription {
  readonly name: string | null;
  readonly version: string | null;
  readonly protocol: number;
  readonly mcpOverHttp: boolean;
  readonly closesSessions: boolean;
  /** Can sessions of an earlier process go on: without their history being told again, or with it? */
  readonly resumesSessions: boolean;
  readonly loadsSessions: boolean;
  /** Content that a prompt may hold besides text and links. */
  readonly prompts: { readonly image: boolean; readonly audio: boolean; readonly embedded: boolean };
  readonly authMethods: readonly { readonly id: string; readonly name: string }[];
}

export function describeAgent(response: InitializeResponse, ours: number): AcpDescription {
  const { protocolVersion, agentCapabilities, agentInfo, authMethods } = response;
  const prompts = agentCapabilities?.promptCapabilities;
  if (protocolVersion !== ours) {
    const message = `the agent speaks version ${protocolVersion} of the Agent Client Protocol, this node version ${ours}`;
    throw new EclipticError('PROVIDER_PROTOCOL_MISMATCH', message, { ours, theirs: protocolVersion });
  }
  return {
    name: agentInfo?.title ?? agentInfo?.name ?? null,
    version: agentInfo?.version ?? null,
    protocol: protocolVersion,
    mcpOverHttp: agentCapabilities?.mcpCapabilities?.http === true,
    closesSessions: agentCapabilities?.sessionCapabilities?.close != null,
    resumesSessions: agentCapabilities?.sessionCapabilities?.resume != null,
    loadsSessions: agentCapabilities?.loadSession === true,
    prompts: {
      image: prompts?.image === true,
      audio: prompts?.audio === true,
      embedded: prompts?.embeddedContext === true,
    },
    authMethods: (authMethods ?? []).map(({ id, name }) => ({ id, name })),
  };
}

/** A file that comes with a prompt: its content in base64, or its URL. */
export interface PromptFile {
  readonly raw?: string | undefined;
  readonly url?: string | undefined;
  readonly filename?: string | undefined;
  readonly mediaType?: string | undefined;
}

type Block = PromptRequest['prompt'][number];

const TEXT = /^(text\/|application\/(json|xml|yaml|toml|javascript|x-sh)\b)|\+(json|xml)\b/;

/** A prompt as blocks that the agent takes: every agent takes links; content depends on its capabilities. */
export function promptBlocks(
  text: string,
  files: readonly PromptFile[],
  takes: AcpDescription['prompts'],
  agent: string,
): Block[] {
  const words: Block[] = text === '' ? [] : [{ type: 'text', text }];
  return [...words, ...files.map((file) => blockOf(file, takes, agent))];
}

function blockOf(file: PromptFile, takes: AcpDescription['prompts'], agent: string): Block {
  const { raw, url, filename, mediaType: mimeType } = file;
  const type = mimeType === undefined ? {} : { mimeType };
  if (url !== undefined) return { type: 'resource_link', uri: url, name: filename ?? nameIn(url), ...type };
  const data = raw ?? '';
  if (mimeType?.startsWith('image/') && takes.image) return { type: 'image', data, mimeType };
  if (mimeType?.startsWith('audio/') && takes.audio) return { type: 'audio', data, mimeType };
  const name = filename ?? 'attachment';
  const text = mimeType !== undefined && TEXT.test(mimeType) ? Buffer.from(data, 'base64').toString('utf8') : undefined;
  if (takes.embedded) {
    const content = text === undefined ? { blob: data } : { text };
    return { type: 'resource', resource: { uri: `attachment:///${encodeURIComponent(name)}`, ...type, ...content } };
  }
  if (text !== undefined) return { type: 'text', text: `${name}:\n\n${text}` };
  const what = mimeType ?? 'of an unknown type';
  throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', `${agent} takes no files ${what}; give it a URL`, { mimeType });
}

function nameIn(url: string): string {
  const { pathname, hostname } = URL.canParse(url) ? new URL(url) : { pathname: url, hostname: url };
  return pathname.split('/').filter(Boolean).at(-1) ?? hostname;
}
