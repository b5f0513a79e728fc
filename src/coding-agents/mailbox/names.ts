import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { Mail } from '../../mail/mail.js';
import { joinAddress, splitAddress } from '../../mesh/address.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { Network } from '../../network/peers/network.js';
import { EclipticError } from '../../runtime/errors.js';
import { isPerson, OWNER } from './letter.js';

interface PeerNamesComponents {
  registry: AgentRegistry;
  mail: Mail;
  network: Network | undefined;
}

const SHORT_KEY = 8;

/** Translates between addresses and the names that members use: `id`, or `id@node-name`. */
export class PeerNames {
  readonly #components: PeerNamesComponents;

  constructor(components: PeerNamesComponents) {
    this.#components = components;
  }

  /** The beginning of the key of the address's node. */
  keyOf(address: string): string {
    return (splitAddress(address).node ?? this.#components.registry.nodeKey ?? '').slice(0, SHORT_KEY);
  }

  /** A name that `resolve` translates back to this address. */
  display(address: string): string {
    const { id, node } = splitAddress(address);
    if (node === undefined || node === this.#components.registry.nodeKey) return id;
    return `${id}@${this.#nodeName(node)}`;
  }

  /** The address that a member means by a name, also of an agent that is away. */
  resolve(name: string, viewer: string): string {
    const { id, node } = splitAddress(name);
    const { registry } = this.#components;
    // The owner can be written to even before their agent exists.
    if (node === undefined && isPerson(id)) return OWNER;
    const own = node === undefined || (node !== '' && registry.nodeKey?.startsWith(node));
    const known = this.#known(viewer).filter((address) => splitAddress(address).id === id);
    if (own && known.includes(id)) return id;
    const found = known.filter((address) => {
      const on = splitAddress(address).node;
      return on !== undefined && (node === undefined || this.#goesBy(on, node));
    });
    if (found.length === 1) return found[0]!;
    if (found.length === 0) {
      throw new EclipticError('AGENT_NOT_FOUND', `no agent is called "${name}"; mesh_peers lists them`, { name });
    }
    const candidates = found.map((address) => this.display(address));
    throw new EclipticError('AMBIGUOUS_AGENT', `"${name}" may mean ${candidates.join(' or ')}; write one of these`, {
      candidates,
    });
  }

  /** Agents that are away and can be sent mail. A sandboxed viewer knows only agents that are present. */
  away(viewer: string): string[] {
    const { registry, mail } = this.#components;
    if (registry.entry(viewer)?.sandboxId !== undefined) return [];
    return mail
      .known()
      .filter(({ address, sandboxId }) => sandboxId === undefined && !registry.entry(address))
      .filter(({ address }) => !registry.policy.isConfined(address))
      .map(({ address }) => address);
  }

  #known(viewer: string): string[] {
    const present = this.#components.registry.listAll(viewer).map(({ id, node }) => joinAddress(id, node));
    return [...present, ...this.away(viewer)];
  }

  #goesBy(key: string, name: string): boolean {
    return name !== '' && (key.startsWith(name) || this.#nodeName(key) === name);
  }

  /** The node's own name if it is unique here, else the beginning of its key. */
  #nodeName(key: string): string {
    const peers = this.#components.network?.peers.all ?? [];
    const name = safe(peers.find(({ node }) => node === key)?.name ?? '');
    const unique = name !== '' && peers.filter((peer) => safe(peer.name) === name).length === 1;
    return unique ? name : key.slice(0, SHORT_KEY);
  }
}

/** A node chooses its own name, so only harmless characters are kept. */
function safe(name: string): string {
  return name
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 24);
}

/** Names that would impersonate people, the system, or everyone. */
const RESERVED: ReadonlySet<string> = new Set([
  OWNER,
  'guest',
  'human',
  'user',
  'system',
  'admin',
  'root',
  'all',
  'me',
]);
/** Longest part of a generated name that the client, or the folder, contributes. */
const MAX_WORD = 32;
const NAME = /^[a-z0-9][a-z0-9_-]{0,47}$/i;

/** Returns a valid wanted name; throws for others. */
export function checkedName(name: string): string {
  if (!NAME.test(name)) {
    throw new EclipticError('USAGE', `--as ${JSON.stringify(name)}: a name has 1 to 48 letters, digits, "-" or "_"`);
  }
  if (RESERVED.has(name.toLowerCase())) throw new EclipticError('USAGE', `--as ${name}: that name is reserved`);
  return name;
}

/** The default name: the same for the same client in the same checkout. */
export function nameFor(client: string, checkout: string): string {
  const tail = createHash('sha256').update(`${client}\n${checkout}`).digest('hex').slice(0, 2);
  return `${slug(client) || 'agent'}-${slug(basename(checkout)) || 'here'}-${tail}`;
}

export function numbered(name: string, n: number): string {
  return n === 1 ? name : `${name}-${n}`;
}

/** Lower case with dashes; a long text is cut after a whole word. */
function slug(text: string): string {
  const whole = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (whole.length <= MAX_WORD) return whole;
  const end = whole.lastIndexOf('-', MAX_WORD);
  return whole.slice(0, end > 0 ? end : MAX_WORD);
}
