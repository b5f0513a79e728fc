import type { A2ALogEvent } from '../mesh/schemas.js';
import { cutText } from '../runtime/text.js';
import type { Command } from './command.js';
import { oneLine } from './output.js';

export const command: Command = {
  summary: 'follow the messages, refusals and other events of the node, one line each',
  usage: 'tail [--type T] [--agent A] [--all]',
  options: { type: { type: 'string' }, agent: { type: 'string' }, all: { type: 'boolean' } },
  optionHelp: [
    ['--type T', 'only such events: message-sent, security, error, provider, provider.health.changed, …'],
    ['--agent A', 'only events of messages that agent sends or gets'],
    ['--all', 'every event: a message is then sent, routed, audited and received'],
  ],
  examples: ['ecliptic tail', 'ecliptic tail --type security', 'ecliptic tail --agent mars --json'],
  async run({ connect, values, output }) {
    const { type, agent } = values;
    const messages = type === undefined && !values.all;
    const client = await connect();
    process.on('SIGINT', () => client.close());
    const ended = client.call('tail', { type, agent, messages }, (event) => {
      output.value(event, () => describe(event as TailEvent, messages));
    });
    await ended.catch((error) => {
      if (error.code !== 'CANCELLED') throw error;
    });
  },
};

type TailEvent = A2ALogEvent & { readonly payload?: unknown };

const PAYLOAD_CHARS = 80;

function describe(event: TailEvent, messages: boolean): string {
  if (event.type === 'provider') return describeProvider(event);
  const ends = event.sender ? `${event.sender} → ${event.recipient ?? ''}` : (event.toolName ?? '');
  const time = new Date(event.timestamp).toISOString().slice(11, 23);
  // A message is known by its own type; anything else by the event's.
  const message = messages && event.type === 'routing-decision';
  const kinds = message
    ? [ends.padEnd(24), (event.messageType ?? '').padEnd(13)]
    : [event.type.padEnd(16), ends.padEnd(24), (event.messageType ?? '').padEnd(13)];
  return oneLine([time, ...kinds, outcomeOf(event, message)].join('  ').trimEnd());
}

function outcomeOf(event: TailEvent, message: boolean): string {
  const { code, reason, broadcast, routingPath } = event;
  if (code !== undefined) return `${code}: ${reason ?? ''}`;
  if (broadcast) return `${broadcast.delivered} of ${broadcast.recipients} agents have it`;
  if (!message) {
    const state = event.channelStatus ?? event.peerStatus ?? event.receiptState;
    return state ?? event.proposalStatus ?? event.swarmStatus ?? event.topic ?? routingPath ?? '';
  }
  const far = routingPath === 'remote' ? '(remote) ' : '';
  if ('payload' in event) return `${far}${short(JSON.stringify(event.payload))}`;
  const { correlationId } = event;
  return `${far}(over 1 kB; see: ecliptic ${correlationId === undefined ? 'log' : `thread ${correlationId}`})`;
}

function describeProvider({ timestamp, topic = '', provider = '', code, reason, details }: A2ALogEvent): string {
  const said = [code, reason].filter((part) => part !== undefined).join(': ') || JSON.stringify(details ?? {});
  const time = new Date(timestamp).toISOString().slice(11, 23);
  return oneLine([time, topic.padEnd(32), provider.padEnd(24), said].join('  ').trimEnd());
}

function short(text: string): string {
  return text.length > PAYLOAD_CHARS ? `${cutText(text, PAYLOAD_CHARS - 1)}…` : text;
}
