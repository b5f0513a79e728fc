import { parseConfig } from '../../../src/node/config/load.js';
import { EclipticError } from '../../../src/runtime/errors.js';
import { type FuzzTarget, must, mustEqual } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const CONFIGS: readonly unknown[] = [
  {
    name: 'desk',
    agents: [{ id: 'mars', capabilities: ['a.b'], tier: 2, worker: { command: 'node', args: ['x.js'] } }],
    limits: { mailboxCapacity: 10, threads: { waiting: 5 } },
    network: { listen: { port: 1 }, peers: ['ws://h:1'] },
    http: { port: 3000, jwt: { issuer: 'i', audience: 'a', jwksUrl: 'https://k' } },
  },
  {
    agents: { mars: { model: { url: 'http://127.0.0.1:1', model: 'm' } } },
    hierarchy: { tiers: { L1: { concurrency: 2 } } },
  },
  {
    mcp: { servers: { a: { command: 'x', args: [], env: { A: 'b' } }, b: { url: 'https://x' } } },
    policy: { tiers: {} },
  },
  { retention: { journal: { maxRows: 3 } }, telemetry: { otlp: { url: 'http://h' } }, notify: { bell: true } },
];

/** Only `INVALID_CONFIG` is thrown, with a place for each fault; a configuration that is taken is taken again. */
export const target: FuzzTarget = {
  name: 'config',
  about: 'ecliptic.json',
  seeds: [
    ...CONFIGS.map((_, index) => Buffer.of(index)),
    '// c\n{"agents":[],}',
    '{"__proto__":{}}',
    ...CONFIGS.map((one) => JSON.stringify(one)),
  ],
  run(input) {
    const raw = input[0] === 0x7b || input[0] === 0x2f;
    const value = raw ? undefined : jsonOf(input, CONFIGS);
    const text = raw ? input.toString('utf8') : (JSON.stringify(value, null, 1) ?? '');
    try {
      const config = parseConfig(text, 'ecliptic.json');
      mustEqual(parseConfig(JSON.stringify(config), 'ecliptic.json'), config, 'a configuration read twice');
    } catch (error) {
      if (error instanceof EclipticError) {
        must(error.code === 'INVALID_CONFIG', () => `${error.code} instead of INVALID_CONFIG`);
        must((error.details.faults as unknown[]).length > 0, () => 'refused without a fault');
      }
      throw error;
    }
  },
};
