import type { Entry } from '../../collections/entry.js';
import { uriOf } from '../../collections/knowledge.js';
import { OPERATOR } from '../../http/auth/caller-auth.js';
import type { Party } from '../../mesh/policy.js';
import { EclipticError } from '../../runtime/errors.js';
import { type ControlContext, completeId, type Handlers } from './context.js';
import type { EntryRow } from './rows.js';

/** The owner's operations on memory, house rules and taste. With `as`, in the name of an agent of this node. */
export function collectionMethods({ node }: { node: Pick<ControlContext['node'], 'collections' | 'registry'> }) {
  const open = () => {
    if (node.collections) return node.collections;
    throw new EclipticError('METHOD_NOT_FOUND', 'this node has no collections');
  };
  const caller = (as: string | undefined): { readonly party: Party; readonly asOwner: boolean } => {
    if (as === undefined) return { party: OPERATOR, asOwner: true };
    const party = node.registry.ownEntry(as);
    if (party) return { party, asOwner: false };
    throw new EclipticError('AGENT_NOT_FOUND', `this node has no agent "${as}"`, { agentId: as });
  };
  const listed = <T>(one: T | undefined) => (one === undefined ? undefined : [one]);
  return {
    async entries({ as, query, tag, collection, limit }) {
      const terms = { tag, limit, collections: listed(collection) };
      const found = await open().search(query, caller(as).party, terms);
      return found.map(({ score, ...entry }) => rowOf(entry, score));
    },
    async 'entries.add'({ as, text, tags, collection = 'memory' }) {
      const { party, asOwner } = caller(as);
      return rowOf(await open().add(collection, { text, tags }, party, { asOwner }));
    },
    async 'entries.forget'({ id: given, as, collection }) {
      const { party, asOwner } = caller(as);
      const collections = listed(collection);
      const id = completeId(given, await open().ids(party, collections));
      return rowOf(await open().forget(id, party, { asOwner, ...(collections && { collections }) }));
    },
  } satisfies Partial<Handlers>;
}

function rowOf(
  { id, collection, text, tags, author, origin, owner, sandbox, at }: Entry,
  score: number | null = null,
): EntryRow {
  return { id, collection, uri: uriOf(collection, id), text, tags, author, origin, owner, sandbox, at, score };
}
