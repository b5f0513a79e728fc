import type { AgentCard } from '../../mesh/schemas.js';
import type { SeesMail } from './member-context.js';

const PREFIX = 'ecliptic-mail/';

/** How a member's card says when it sees its mail. */
export function mailProtocol(seesMail: SeesMail): string {
  return `${PREFIX}${seesMail}`;
}

/** Does it have a handler, which is called at once, whatever the message needs? */
export function hasHandler({ protocols }: AgentCard): boolean {
  return !protocols.some((protocol) => protocol.startsWith(PREFIX));
}

/** When that agent sees its mail, by its card. One that says nothing has a handler, which is called at once. */
export function seesMailOf({ protocols }: AgentCard): SeesMail {
  const said = protocols.find((protocol) => protocol.startsWith(PREFIX))?.slice(PREFIX.length);
  return said === undefined || said === 'wakes' ? 'wakes' : said === 'next_turn' ? 'next_turn' : 'polls';
}
