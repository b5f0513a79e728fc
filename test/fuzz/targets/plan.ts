import { readPlan } from '../../../src/plans/plan-check.js';
import { EclipticError } from '../../../src/runtime/errors.js';
import { type FuzzTarget, must, mustEqual } from '../fuzz-target.js';

const fine = () => undefined;
const world = { worker: fine, adviser: fine, capable: fine, dispatcher: fine, schema: async () => undefined };

/** A plan that is taken is taken again as JSON; one that is not names a place for each fault. */
export const target: FuzzTarget = {
  name: 'plan',
  about: 'plans in YAML and JSON',
  seeds: [
    'name: p\ntasks:\n  - id: a\n    agent: mars\n    description: do\n  - id: b\n    capabilities: [x.y]\n    dependsOn: [a]\n    input:\n      from: a\n',
    '{"tasks":[{"id":"a","agent":"m","description":"d"}]}',
    'a: &a [1]\nb: *a\n',
    'tasks:\n  - id: s\n    description: x\n    swarm:\n      subTasks:\n        - id: q\n          requiredCapabilities: [c]\n',
  ],
  words: [
    'tasks:',
    'dependsOn:',
    'agent:',
    'swarm:',
    'subTasks:',
    '&a ',
    '*a',
    '<<:',
    '!!',
    '|\n',
    '? ',
    '- ',
    'validate:',
    'timeoutMs:',
  ],
  maxBytes: 2_048,
  maxMs: 250,
  async run(input) {
    const text = input.toString('utf8');
    try {
      const plan = await readPlan(text, 'plan.yaml', world, 'sun');
      mustEqual(await readPlan(JSON.stringify(plan), 'plan.json', world, 'sun'), plan, 'a plan read twice');
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'INVALID_PLAN') {
        must(/:\d+:\d+: /.test(error.message), () => `no place: ${error.message}`);
      }
      throw error;
    }
  },
};
