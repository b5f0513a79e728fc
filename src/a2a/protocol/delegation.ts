import { EclipticError } from '../../runtime/errors.js';
import { EXTENSION_URIS } from './headers.js';
import { A2A_LIMITS } from './limits.js';
import { refuse } from './reading.js';
import type { Metadata } from './types.js';

/**
 * On whose behalf a task is done: the agents that handed it on by their full addresses, the first asker first. It
 * travels in the metadata of a request, and in a header where there is none. Whoever hands a task on adds itself, so
 * that the end of a chain is as true as its sender.
 */
export type DelegationChain = readonly string[];

export const DELEGATION_HEADER = 'Ecliptic-Delegation';

/** How often one task may be handed on. */
export const DELEGATION_DEPTH = 5;

/** A chain longer than any limit is not read to its end. */
const MAX_ENTRIES = 64;

/** The chain that a request brings; metadata and header must not contradict each other. */
export function readDelegation(metadata: Metadata | undefined, header: string | undefined): DelegationChain {
  const said = metadata?.[EXTENSION_URIS.delegation];
  const inMetadata = said === undefined || said === null ? undefined : checkChain(said, 'metadata');
  const inHeader = header === undefined ? undefined : checkChain(parseHeader(header), DELEGATION_HEADER);
  if (inMetadata && inHeader && JSON.stringify(inMetadata) !== JSON.stringify(inHeader)) {
    refuse(DELEGATION_HEADER, 'says something else than the metadata');
  }
  return inMetadata ?? inHeader ?? [];
}

/**
 * The chain as `agent` hands the task on. Throws `DELEGATION_REFUSED` when `agent` stands in it already (the task went
 * in a circle) or when it would become longer than `depth`.
 */
export function extendDelegation(
  chain: DelegationChain,
  agent: string,
  depth: number = DELEGATION_DEPTH,
): DelegationChain {
  if (chain.includes(agent)) throw refused('loop', chain, agent, `${agent} has handed this task on already`);
  if (chain.length >= depth) throw refused('depth', chain, agent, `the task was handed on ${chain.length} times`);
  return [...chain, agent];
}

/**
 * May `agent` take a task that came along this chain? The caller is its last entry, so that a chain as long as the
 * limit is the last that is taken.
 */
export function admitDelegation(chain: DelegationChain, agent: string, depth: number = DELEGATION_DEPTH): void {
  if (chain.length > depth) throw refused('depth', chain, agent, `the task was handed on ${chain.length} times`);
  if (chain.includes(agent)) throw refused('loop', chain, agent, `the task has come back to ${agent}`);
}

/** Metadata that carries the chain, beside what is there already. */
export function withDelegation(metadata: Metadata | undefined, chain: DelegationChain): Metadata {
  return { ...metadata, [EXTENSION_URIS.delegation]: chain };
}

export function writeDelegationHeader(chain: DelegationChain): string {
  return chain.map(encodeURIComponent).join(', ');
}

function parseHeader(header: string): unknown {
  const entries = header.split(',', MAX_ENTRIES + 1).map((entry) => entry.trim());
  try {
    return entries.filter((entry) => entry !== '').map(decodeURIComponent);
  } catch {
    refuse(DELEGATION_HEADER, 'is not a list of percent-encoded addresses');
  }
}

function checkChain(value: unknown, place: string): DelegationChain {
  if (!Array.isArray(value) || value.length > MAX_ENTRIES) {
    refuse(place, `must hold a chain of at most ${MAX_ENTRIES} addresses`);
  }
  for (const entry of value) {
    if (typeof entry !== 'string' || entry === '' || entry.length > A2A_LIMITS.urlChars) {
      refuse(place, 'must hold a chain of addresses');
    }
  }
  return value as string[];
}

function refused(reason: 'loop' | 'depth', chain: DelegationChain, agent: string, text: string): EclipticError {
  return new EclipticError('DELEGATION_REFUSED', text, { reason, agent, chain });
}
