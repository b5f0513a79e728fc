import type { A2ALogEvent } from '../a2a/schemas.js';
import type { Command } from './command.js';
import { oneLine } from './output.js';

export const command: Command = {
  summary: 'follow what happens on the node',
  usage: 'tail [--type T] [--agent A]',
  options: { type: { type: 'string' }, agent: { type: 'string' } },
  optionHelp: [
    ['--type T', 'only such events: message-sent, security, error, provider, provider.health.changed, …'],
    ['--agent A', 'only what that agent sends or gets'],
  ],
  examples: ['ecliptic tail', 'ecliptic tail --type security', 'ecliptic tail --agent mars --json'],
  async run({ connect, values, output }) {
    const { type, agent } = values;
    const client = await connect();
    process.on('SIGINT', () => client.close());
    const ended = client.call('tail', { type, agent }, (event) => {
      output.value(event, () => describe(event as A2ALogEvent));
    });
    await ended.catch((error) => {
      if (error.code !== 'CANCELLED') throw error;
    });
  },
};

function describe(event: A2ALogEvent): string {
  if (event.type === 'provider') return describeProvider(event);
  const ends = event.sender ? `${event.sender} → ${event.recipient ?? ''}` : (event.toolName ?? '');
  const outcome = event.code
    ? `${event.code}: ${event.reason ?? ''}`
    : (event.channelStatus ?? event.routingPath ?? '');
  const time = new Date(event.timestamp).toISOString().slice(11, 23);
  const columns = [time, event.type.padEnd(16), ends.padEnd(24), (event.messageType ?? '').padEnd(13), outcome];
  return oneLine(columns.join('  ').trimEnd());
}

function describeProvider({ timestamp, topic = '', provider = '', code, reason, details }: A2ALogEvent): string {
  const said = [code, reason].filter((part) => part !== undefined).join(': ') || JSON.stringify(details ?? {});
  const time = new Date(timestamp).toISOString().slice(11, 23);
  return oneLine([time, topic.padEnd(32), provider.padEnd(24), said].join('  ').trimEnd());
}
