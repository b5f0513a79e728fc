import { quoted } from '../../mcp/fence.js';

/** The origin of a message as this node verified it: nothing of this is the writer's claim. */
export interface Provenance {
  readonly id: string;
  readonly from: string;
  /** The beginning of the sender's key. */
  readonly key: string;
  readonly relation: 'same-node' | 'same-owner' | 'paired';
  readonly origin: 'agent' | 'human' | 'node';
  readonly needs: string;
  readonly hops: number;
  readonly redelivered: boolean;
}

/** A peer's text in a fence that it cannot forge, below a header that only this node can have written. */
export function fenced(about: Provenance, body: string, mark: string): string {
  const { id, from, key, relation, origin, needs, hops, redelivered } = about;
  const flags = [
    `key ${key}`,
    relation,
    `origin: ${origin}`,
    ...(needs === 'none' ? [] : [`needs ${needs}`]),
    ...(hops === 0 ? [] : [`hop ${hops}`]),
    ...(redelivered ? ['shown before'] : []),
  ];
  return `${id} from ${origin === 'node' ? 'your node' : from} (${flags.join(', ')})\n${quoted(body, mark)}`;
}
