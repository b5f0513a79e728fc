import { EclipticError } from '../../runtime/errors.js';
import { EXTENSION_URIS } from '../protocol/extensions.js';
import type { AgentCapabilities, AgentExtension } from '../protocol/types.js';

/** What A2A clients are offered, where the owner wants other than the defaults. */
export interface A2AOfferInit {
  /** Streams of events. Default true. */
  readonly streaming?: boolean | undefined;
  /** Webhooks. Default true. */
  readonly pushNotifications?: boolean | undefined;
  /** Further extensions on the cards; one of the node's own URIs replaces the node's entry. Requests must name the required ones. */
  readonly extensions?: readonly AgentExtension[] | undefined;
  /** Media types of parts that tasks may have, with `*` for any. Default: every type. */
  readonly inputModes?: readonly string[] | undefined;
}

/** What every card of the node promises, and every request is held to. */
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

/** Clients that look for a type of their own find the common two by name. */
const INPUT_MODES: readonly string[] = ['text/plain', 'application/json', '*/*'];
const OUTPUT_MODES: readonly string[] = ['text/plain', 'application/json'];
const MEDIA_RANGE = /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+$/;

/** Throws `INVALID_CONFIG` for an extension without a URI, or a mode that is no media type. */
export function offerOf(init: A2AOfferInit = {}): A2AOffer {
  const { streaming = true, pushNotifications = true, extensions = [], inputModes = INPUT_MODES } = init;
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
    capabilities: { streaming, pushNotifications, extendedAgentCard: true, extensions: [...own, ...extensions] },
    inputModes,
    outputModes: OUTPUT_MODES,
  };
}

export const DEFAULT_OFFER: A2AOffer = offerOf();
