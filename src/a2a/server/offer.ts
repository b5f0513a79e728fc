import { EclipticError } from '../../runtime/errors.js';
import { EXTENSION_URIS } from '../protocol/headers.js';
import type { AgentCapabilities, AgentCard, AgentExtension, Part } from '../protocol/types.js';

/** Changes to the default offer. */
export interface A2AOfferInit {
  /** Default true. */
  readonly streaming?: boolean;
  /** Webhooks. Default true. */
  readonly pushNotifications?: boolean;
  /** A card with everything that the caller may see. Default true. */
  readonly extendedAgentCard?: boolean;
  /**
   * Further extensions on the cards; an entry with one of the node's own URIs replaces the node's. Requests must name
   * the required ones.
   */
  readonly extensions?: readonly AgentExtension[];
  /** Media types of parts that are accepted, with `*` for any. Default: every type. */
  readonly inputModes?: readonly string[];
}

/** The offer of a node, with changes for some of its agents. */
export interface A2AOffersInit extends A2AOfferInit {
  /** By agent id; what an agent leaves out is as for the node, and its extensions are added to the node's. */
  readonly agents?: Readonly<Record<string, A2AOfferInit>>;
}

/** The capabilities that the cards declare and the operations enforce. */
export interface A2AOffer {
  readonly capabilities: AgentCapabilities & { readonly extensions: readonly AgentExtension[] };
  readonly inputModes: readonly string[];
  readonly outputModes: readonly string[];
}

const OWN_EXTENSIONS: readonly AgentExtension[] = [
  {
    uri: EXTENSION_URIS.resume,
    description: 'Every event has an SSE id; Last-Event-ID goes on from it without a gap.',
  },
  {
    uri: EXTENSION_URIS.idempotency,
    description:
      'Idempotency-Key, or the message id: the same send is the same task, and another send with the same key is refused.',
  },
  {
    uri: EXTENSION_URIS.delegation,
    description: 'On whose behalf a task is done; circles and long chains are refused.',
  },
];

/** The two common types are named for clients that look for an exact match. */
const INPUT_MODES: readonly string[] = ['text/plain', 'application/json', '*/*'];
const OUTPUT_MODES: readonly string[] = ['text/plain', 'application/json'];
const MEDIA_RANGE = /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+$/;

/** Throws `INVALID_CONFIG` for an extension without a URI, or a mode that is no media type. */
export function offerOf(init: A2AOfferInit = {}): A2AOffer {
  const { streaming = true, pushNotifications = true, extendedAgentCard = true, extensions = [] } = init;
  const { inputModes = INPUT_MODES } = init;
  const faults = [
    ...inputModes.filter((mode) => !MEDIA_RANGE.test(mode)).map((mode) => `inputModes: "${mode}" is no media type`),
    ...extensions.filter(({ uri }) => typeof uri !== 'string' || uri === '').map(() => 'extensions: one has no uri'),
    ...(inputModes.length === 0 ? ['inputModes: at least one is needed'] : []),
  ];
  if (faults.length > 0) throw new EclipticError('INVALID_CONFIG', `http.a2a.${faults[0]}`, { faults });
  const own = OWN_EXTENSIONS.filter(
    ({ uri }) => (streaming || uri !== EXTENSION_URIS.resume) && !extensions.some((other) => other.uri === uri),
  );
  return {
    capabilities: { streaming, pushNotifications, extendedAgentCard, extensions: [...own, ...extensions] },
    inputModes,
    outputModes: OUTPUT_MODES,
  };
}

export const DEFAULT_OFFER: A2AOffer = offerOf();

/** The offers of a node and of its agents. */
export class Offers {
  readonly node: A2AOffer;
  readonly #agents: ReadonlyMap<string, A2AOffer>;

  constructor({ agents = {}, ...node }: A2AOffersInit = {}) {
    this.node = offerOf(node);
    const own = Object.entries(agents).map(([id, init]) => [id, offerOf(inherit(node, init))] as const);
    this.#agents = new Map(own);
  }

  /** Do all agents have the offer of the node? */
  get isUniform(): boolean {
    return this.#agents.size === 0;
  }

  /** Without an agent, or for one without changes, the offer of the node. */
  of(agent: string | undefined): A2AOffer {
    return (agent === undefined ? undefined : this.#agents.get(agent)) ?? this.node;
  }

  get sendsPushes(): boolean {
    return [this.node, ...this.#agents.values()].some(({ capabilities }) => capabilities.pushNotifications);
  }
}

function inherit(node: A2AOfferInit, init: A2AOfferInit): A2AOfferInit {
  const { extensions: added = [] } = init;
  const kept = (node.extensions ?? []).filter(({ uri }) => !added.some((other) => other.uri === uri));
  return { ...node, ...init, extensions: [...kept, ...added] };
}

type Promises = Pick<AgentCard, 'capabilities'>;

export function requireStreaming({ capabilities }: Promises): void {
  if (!capabilities.streaming) throw new EclipticError('OPERATION_NOT_SUPPORTED', 'the agent does not stream');
}

export function requirePush({ capabilities }: Promises): void {
  if (!capabilities.pushNotifications) {
    throw new EclipticError('PUSH_NOT_SUPPORTED', 'the agent does not send push notifications');
  }
}

export function requireExtendedCard({ capabilities }: Promises, extended: AgentCard | undefined): AgentCard {
  if (!capabilities.extendedAgentCard) {
    throw new EclipticError('OPERATION_NOT_SUPPORTED', 'the agent has no extended card');
  }
  if (extended === undefined) {
    throw new EclipticError('EXTENDED_CARD_NOT_CONFIGURED', 'the extended card is not configured');
  }
  return extended;
}

/** Parts without a media type are always accepted. */
export function requireInputModes(parts: readonly Part[], accepted: readonly string[]): void {
  for (const { mediaType } of parts) {
    if (mediaType !== undefined && !accepted.some((mode) => covers(mode, mediaType))) {
      throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', `the agent does not accept ${mediaType}`, {
        mediaType,
        accepted,
      });
    }
  }
}

export function requireOutputModes(wanted: readonly string[] | undefined, made: readonly string[]): void {
  if (!wanted?.length || wanted.some((mode) => made.some((other) => covers(mode, other)))) return;
  throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', `the agent makes ${made.join(', ')}`, { wanted, made });
}

/** Compares media types without parameters; either half of `mode` may be `*`. */
function covers(mode: string, mediaType: string): boolean {
  const [type, subtype] = essence(mode);
  const [otherType, otherSubtype] = essence(mediaType);
  return (type === '*' || type === otherType) && (subtype === '*' || subtype === otherSubtype);
}

function essence(mediaType: string): [type: string, subtype: string] {
  const [type = '', subtype = ''] = mediaType.split(';', 1)[0]!.trim().toLowerCase().split('/');
  return [type, subtype];
}
