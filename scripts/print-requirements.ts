import { citations } from '../test/citations.js';
import { requirements } from '../test/requirements.js';

const cited = citations();
if (process.argv.includes('--json')) {
  console.log(JSON.stringify(requirements.map((row) => ({ ...row, tests: cited.get(row.id) ?? [] }))));
} else {
  for (const { id, capability, planned, sentence } of requirements) {
    const state = planned ? 'planned' : `${cited.get(id)?.length ?? 0} tests`;
    console.log(`${id.padEnd(34)}${capability.padEnd(14)}${state.padEnd(10)}${sentence}`);
  }
  const capabilities = [...new Set(requirements.map((row) => row.capability))];
  console.log();
  for (const capability of capabilities) {
    const own = requirements.filter((row) => row.capability === capability);
    const planned = own.filter((row) => row.planned).length;
    console.log(`${capability.padEnd(14)}${own.length - planned} of ${own.length} held by tests`);
  }
}
