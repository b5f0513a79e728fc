import type { Command } from './command.js';
import { oneLine, usage } from './output.js';
import { duration, listed } from './payload.js';

export const command: Command = {
  summary: 'make a one-time code that lets another node into this mesh',
  usage: 'invite [--other] [--tiers LIST] [--sandbox LIST] [--ttl TIME]',
  options: {
    other: { type: 'boolean' },
    tiers: { type: 'string' },
    sandbox: { type: 'string' },
    ttl: { type: 'string' },
  },
  optionHelp: [
    ['--other', 'for somebody else’s node: its agents are L2 or L3, and it cannot invite'],
    ['--tiers LIST', 'the tiers its agents may have, e.g. 2,3 (default: all, for a device of your own)'],
    ['--sandbox LIST', 'the only sandboxes its agents may live in'],
    ['--ttl TIME', 'how long the code can be used, e.g. 1h (default: 15m)'],
  ],
  examples: ['ecliptic invite', 'ecliptic invite --other --ttl 1h', 'ecliptic invite --json   # {"code":…}'],
  async run({ connect, values, output }) {
    const words = listed(values, 'tiers');
    if (words?.some((word) => !/^[0-3]$/.test(word))) throw usage('--tiers lists 0, 1, 2 or 3, e.g. 2,3');
    const given = words?.map(Number) ?? (values.other ? [2, 3] : undefined);
    const request = {
      tiers: given,
      sandboxes: listed(values, 'sandbox'),
      ttlMs: duration(values, 'ttl'),
      mayInvite: values.other ? false : undefined,
    };
    const client = await connect();
    const invite = await client.call<{ code: string; expiresAt: number; warnings: string[] }>('invite', request);
    if (!output.json) for (const warning of invite.warnings) process.stderr.write(`warning: ${oneLine(warning)}\n`);
    output.value(invite, () =>
      [
        invite.code,
        '',
        `On the other device, before ${new Date(invite.expiresAt).toLocaleTimeString()}, once:`,
        `  ecliptic join ${invite.code}`,
      ].join('\n'),
    );
  },
};
