import { verb } from './command.js';

const verify = verb({
  summary: 'verify that no row of the audit log was changed or removed',
  examples: ['', '--json'],
  async run({ call, output }) {
    const report = await call('audit.verify');
    output.value(report, () => `audit log intact: ${report.rows} rows verified`);
  },
});

export const verbs = { verify };
