import type { ApprovalRequest } from '../../system/approvals/approvals.js';
import type { Definition } from '../definitions.js';
import { keyOf } from '../definitions.js';
import { definitionDiff } from './definition-diff.js';
import type { Listed } from './lists.js';
import { fingerprint, type Pins, slotOf } from './pins.js';

/** The kind under which a definition waits for approval. */
export const DEFINITION_APPROVAL = 'tool-definition';

/** A definition that is not the one that was pinned. */
export interface Suspect {
  readonly definition: Definition;
  readonly slot: string;
  readonly hash: string;
  readonly change: 'changed' | 'new' | 'renamed';
  readonly summary: string;
  /** What is different, for people. */
  readonly diff: readonly string[];
}

/** Tells the definitions that are as they were pinned from those that are not. Resources are data, and not pinned. */
export function sortOut(
  server: string,
  all: readonly Listed[],
  pins: Pins,
): { readonly trusted: readonly Listed[]; readonly suspects: readonly Suspect[] } {
  const trusted: Listed[] = [];
  const suspects: Suspect[] = [];
  const slots = new Set(all.map(({ slot }) => slot));
  for (const one of all) {
    const { definition, slot, hash } = one;
    const pin = pins.get(server, slot);
    if (definition.kind === 'resource' || pin?.hash === hash) trusted.push(one);
    else suspects.push({ definition, slot, hash, ...describe(server, definition, slots, pins) });
  }
  return { trusted, suspects };
}

/** What the operator is asked about it. It holds the whole definition: that is what is approved, and nothing later. */
export function approvalRequest(server: string, suspect: Suspect): ApprovalRequest {
  const { definition, slot, hash, change, summary, diff } = suspect;
  return {
    kind: DEFINITION_APPROVAL,
    subject: `${server}.${keyOf(definition)}`,
    summary,
    details: { server, slot, hash, change, diff, definition },
  };
}

function describe(
  server: string,
  definition: Definition,
  slots: ReadonlySet<string>,
  pins: Pins,
): Pick<Suspect, 'change' | 'summary' | 'diff'> {
  const { kind } = definition;
  const what = `${kind} "${keyOf(definition)}" of MCP server "${server}"`;
  const pin = pins.get(server, slotOf(definition));
  if (pin) {
    const diff = definitionDiff(pin.definition, definition);
    return { change: 'changed', summary: `${what} is not what it was`, diff };
  }
  const gone = Object.entries(pins.of(server)).filter(([slot]) => slot.startsWith(`${kind} `) && !slots.has(slot));
  const before = gone.find(([, { definition: old }]) => nameless(old) === nameless(definition))?.[1].definition;
  if (!before) return { change: 'new', summary: `${what} is new`, diff: definitionDiff(undefined, definition) };
  const summary = `${what} was "${keyOf(before)}" before`;
  return { change: 'renamed', summary, diff: definitionDiff(before, definition) };
}

/** Everything about a definition but what it is called by. */
function nameless(definition: Definition): string {
  return fingerprint({ ...definition, name: 'any', ...(definition.kind === 'template' && { uriTemplate: 'any' }) });
}
