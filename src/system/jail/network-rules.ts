import { EclipticError } from '../../runtime/errors.js';
import {
  AllowList,
  isLoopback,
  parseTarget,
  type Resolve,
  resolveTarget,
  systemResolve,
  type Target,
} from '../fetch/target.js';

interface Rule {
  readonly host: string;
  readonly port: number;
  /** Does it also mean every name below the host? */
  readonly below: boolean;
  readonly target: Target;
}

/**
 * The hosts that a jailed program may reach. A name counts only while all its addresses are public, so that it cannot be
 * pointed at this machine or its network; a private address must be listed as an address, or as `localhost`.
 */
export class NetworkRules {
  readonly #rules: readonly Rule[];
  readonly #private: AllowList;
  readonly #resolve: Resolve;

  constructor(entries: readonly string[], resolve: Resolve = systemResolve) {
    this.#resolve = resolve;
    this.#rules = entries.map(parseRule);
    const listed = this.#rules.filter(({ target, host }) => target.isAddress || host === 'localhost');
    this.#private = new AllowList(listed.map(({ host, port }) => authority(host, port)));
  }

  /** Places on this machine's loopback that are listed. */
  get loopback(): readonly { readonly host: string; readonly port: number }[] {
    return this.#rules.filter(({ host }) => isLoopback(host)).map(({ host, port }) => ({ host, port }));
  }

  /** The addresses to connect to. Rejects with `FETCH_REFUSED` where no rule allows it. */
  async resolve(host: string, port: number): Promise<readonly string[]> {
    const target = targetOf(host, port);
    const allowed = this.#rules.some((rule) => rule.port === target.port && isMeant(rule, target.host));
    if (!allowed) {
      const place = `${target.host}:${target.port}`;
      const message = `${place} is not in the "network" list of this program's jail`;
      throw new EclipticError('FETCH_REFUSED', message, { reason: 'jail', place });
    }
    return resolveTarget(target, this.#private, this.#resolve);
  }
}

function isMeant({ host, below }: Rule, asked: string): boolean {
  return below ? asked.endsWith(`.${host}`) : asked === host;
}

function parseRule(entry: string): Rule {
  const match = /^(\*\.)?(\[[^\]]+\]|[^:/\s*@?#]+):(\d{1,5})$/.exec(entry);
  try {
    if (match) {
      const target = targetOf(match[2]!, Number(match[3]));
      return { host: target.host, port: target.port, below: match[1] !== undefined, target };
    }
  } catch {
    // Reported below.
  }
  const message = `"${entry}" in "network" of a jail is neither host:port nor *.domain:port`;
  throw new EclipticError('INVALID_CONFIG', message, { faults: [entry] });
}

function targetOf(host: string, port: number): Target {
  return parseTarget(`http://${authority(host, port)}`);
}

export function authority(host: string, port: number): string {
  return `${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`;
}
