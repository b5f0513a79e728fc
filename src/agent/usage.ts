export { addUsage, NO_USAGE, USAGE, type Usage, usageIn } from '../work/usage.js';
