import { EclipticError } from '../../runtime/errors.js';
import type { AgentCard, Part } from './types.js';

/** What a card promises is what may be asked of its agent. */

type Promises = Pick<AgentCard, 'capabilities'>;

export function requireStreaming({ capabilities }: Promises): void {
  if (!capabilities.streaming) throw new EclipticError('OPERATION_NOT_SUPPORTED', 'the agent does not stream');
}

export function requirePush({ capabilities }: Promises): void {
  if (!capabilities.pushNotifications) {
    throw new EclipticError('PUSH_NOT_SUPPORTED', 'the agent does not send push notifications');
  }
}

/** A card that promises an extended one must have it. */
export function requireExtendedCard({ capabilities }: AgentCard, extended: AgentCard | undefined): AgentCard {
  if (!capabilities.extendedAgentCard) {
    throw new EclipticError('OPERATION_NOT_SUPPORTED', 'the agent has no extended card');
  }
  if (extended === undefined) {
    throw new EclipticError('EXTENDED_CARD_NOT_CONFIGURED', 'the extended card is not configured');
  }
  return extended;
}

/** Throws `CONTENT_TYPE_NOT_SUPPORTED` for a part of a media type that is not taken. Parts without one are. */
export function requireInputModes(parts: readonly Part[], accepted: readonly string[]): void {
  for (const { mediaType } of parts) {
    if (mediaType !== undefined && !accepted.some((mode) => covers(mode, mediaType))) {
      throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', `the agent does not take ${mediaType}`, {
        mediaType,
        accepted,
      });
    }
  }
}

/** Throws `CONTENT_TYPE_NOT_SUPPORTED` when nothing that the agent makes is among what the client takes. */
export function requireOutputModes(wanted: readonly string[] | undefined, made: readonly string[]): void {
  if (!wanted?.length || wanted.some((mode) => made.some((other) => covers(mode, other)))) return;
  throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', `the agent makes ${made.join(', ')}`, { wanted, made });
}

/** Media types without their parameters; either half of `mode` may be `*`. */
function covers(mode: string, mediaType: string): boolean {
  const [type, subtype] = essence(mode);
  const [otherType, otherSubtype] = essence(mediaType);
  return (type === '*' || type === otherType) && (subtype === '*' || subtype === otherSubtype);
}

function essence(mediaType: string): [type: string, subtype: string] {
  const [type = '', subtype = ''] = mediaType.split(';', 1)[0]!.trim().toLowerCase().split('/');
  return [type, subtype];
}
