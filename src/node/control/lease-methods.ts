import type { CodingAgents } from '../../coding-agents/coding-agents.js';
import { askGuard } from '../../coding-agents/leases/guard.js';
import type { LeaseView } from '../../coding-agents/leases/leases.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** A row of the leases' table. */
export interface LeaseLine extends LeaseView {
  /** What the holder is called here. */
  readonly name: string;
  readonly repositoryName: string;
}

/** What guards and the owner's commands about leases ask of the node. */
export function leaseMethods(codingAgents: () => CodingAgents): Readonly<Record<string, ControlMethod>> {
  const line = (lease: LeaseView): LeaseLine => {
    const { leases, names } = codingAgents();
    return { ...lease, name: names.display(lease.holder), repositoryName: leases.nameOf(lease.repository) };
  };
  return {
    async leases() {
      return (await codingAgents().leases.list()).map(line);
    },
    async 'leases.release'(params) {
      return line(await codingAgents().leases.revoke(new Params(params).string('id')));
    },
    async 'guard.ask'(params) {
      const read = new Params(params);
      const { proves = false } = read.optional({ proves: 'boolean' });
      const paths = read.listOf('paths', (value) => typeof value === 'string', 'a list of paths') ?? [];
      const ancestors = read.listOf('ancestors', (value) => typeof value === 'number', 'a list of processes') ?? [];
      const about = { client: read.string('client'), folder: read.string('folder') };
      const denials = await askGuard(codingAgents().leases, { ...about, paths, ancestors, proves });
      return denials.map((denial) => ({ ...denial, holder: codingAgents().names.display(denial.holder) }));
    },
  };
}
