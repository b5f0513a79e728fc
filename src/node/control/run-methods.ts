import type { RalphLoop } from '../../plans/ralph-loop.js';
import { EclipticError } from '../../runtime/errors.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';
import { CANDIDATES, completeId } from './short-ids.js';

const DEFAULT_ROWS = 100;

/** The owner's operations on plans: they are run by the node, whoever follows. */
export function runMethods(loop: () => RalphLoop): Readonly<Record<string, ControlMethod>> {
  const idOf = async (params: Readonly<Record<string, unknown>>) => {
    const given = new Params(params).string('id');
    return completeId(given, await loop().idsBeginning(given, CANDIDATES));
  };
  return {
    runs(params) {
      const { limit = DEFAULT_ROWS } = new Params(params).optional({ limit: 'number' });
      if (!Number.isSafeInteger(limit) || limit < 0) throw new EclipticError('USAGE', '"limit" must be a whole number');
      return loop().list(limit);
    },
    async run(params) {
      return loop().view(await idOf(params));
    },
    'run.start'(params) {
      const read = new Params(params);
      const { fresh, as } = read.optional({ fresh: 'boolean', as: 'string' });
      return loop().start({ text: read.string('text'), file: read.string('file'), fresh, as });
    },
    // The run as it is, then everything that happens to it, until it ends or nobody listens.
    async 'run.follow'(params, { emit, signal }) {
      return loop().follow(await idOf(params), emit, signal);
    },
    async 'run.stop'(params) {
      return loop().stop(await idOf(params));
    },
  };
}
