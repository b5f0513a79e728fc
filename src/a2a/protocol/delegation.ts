import { EclipticError } from '../../runtime/errors.js';
import { EXTENSION_URIS } from './headers.js';
import { A2A_LIMITS } from './limits.js';
import { refuse } from './reading.js';
import type { Metadata } from './types.js';

/**
 * The agents that handed a task on, by full address, the first caller first. The chain travels in the request's
 * metadata or a header. Each agent adds itself, so a chain is as trustworthy as its sender.
 */
export type DelegationChain = readonly string[];

export const DELEGATION_HEADER = 'Ecliptic-Delegation';

export const DELEGATION_DEPTH = 5;

/** Bounds the parsing; far above DELEGATION_DEPTH. */
const MAX_ENTRIES = 64;

/** Reads the chain of a request. Metadata and header must not contradict each other. */
export function readDelegation(metadata: Metadata | undefined, header: string | undefined): DelegationChain {
  const said = metadata?.[EXTENSION_URIS.delegation];
  const inMetadata = said === undefined || said === null ? undefined : checkChain(said, 'metadata');
  const inHeader = header === undefined ? undefined : checkChain(parseHeader(header), DELEGATION_HEADER);
  if (inMetadata && inHeader && JSON.stringify(inMetadata) !== JSON.stringify(inHeader)) {
    refuse(DELEGATION_HEADER, 'contradicts the metadata');
  }
  return inMetadata ?? inHeader ?? [];
}

/** Adds `agent` to the chain. Throws `DELEGATION_REFUSED` for a loop, and for a chain longer than `depth`. */
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
 * Throws `DELEGATION_REFUSED` if `agent` may not take a task with this chain. The caller is the last entry, so a chain
 * of exactly `depth` entries is still accepted.
 */
export function admitDelegation(chain: DelegationChain, agent: string, depth: number = DELEGATION_DEPTH): void {
  if (chain.length > depth) throw refused('depth', chain, agent, `the task was handed on ${chain.length} times`);
  if (chain.includes(agent)) throw refused('loop', chain, agent, `the task has come back to ${agent}`);
}

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
