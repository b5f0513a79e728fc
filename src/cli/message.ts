import { resolve } from 'node:path';
import type { Detail, Device, WaitingItem } from '../http/dashboard/facts.js';
import type { A2AEnvelope, A2ALogEvent } from '../mesh/schemas.js';
import type { ControlClient } from '../node/control/client.js';
import type { MailRow } from '../node/control/rows.js';
import { cutText } from '../runtime/text.js';
import { duration, flag, list, many, required, text, verb } from './command.js';
import { readPayload } from './input.js';
import { type Cells, type Output, shortAddress, timeText, usage } from './output.js';

/** Digits of another node's key in the id of a message; the rest is completed. */
const KEY_DIGITS = 12;

const sender = required(text('AGENT', 'the sender: an agent of this node'));
const JSON_HELP = [['JSON', 'the payload; - reads it from standard input']] as const;
const recipient = {
  to: text('AGENT', 'the recipient: an id, or id@node'),
  capability: text('C', 'instead of --to: an agent that offers it'),
};

function addressee({ to, capability }: { to?: string; capability?: string }): { to?: string; capability?: string } {
  if (capability !== undefined && to !== undefined) throw usage('give --to or --capability, not both');
  if (capability !== undefined) return { capability };
  if (!to) throw usage('--to is missing');
  return { to };
}

const send = verb({
  summary: 'send one message as an agent',
  args: ['JSON'],
  argHelp: JSON_HELP,
  options: {
    as: sender,
    ...recipient,
    type: text('T', 'the message type (default: notification)'),
    thread: text('ID', 'the conversation it belongs to'),
    justification: text('TEXT', 'why a proposal goes to an agent of a higher rank'),
    durable: flag('keep it on disk until the recipient has dealt with it, also while the recipient’s node is away'),
    ttl: duration('drop it if it is not handled by then', 'ms'),
    attach: many('FILE', 'a file of up to 1 GiB that goes with it; see: ecliptic help object'),
  },
  examples: [
    `--as sun --to mars '{"build":"login"}'`,
    `--as mars --to sun --type task-proposal --justification 'blocked' '{"task":"review"}'`,
    `--durable --ttl 7d --as sun --to mars@3f9a '{"build":"login"}'`,
    `--durable --as sun --to mars@3f9a --attach report.pdf '"see page 3"'`,
    `echo '{"build":"login"}' | % --as sun --capability backend.api -`,
  ],
  async run({ connect, values, words: [json], output }) {
    const { as, type, thread, justification, durable, ttl: ttlMs } = values;
    const attach = values.attach?.map((file) => resolve(file));
    const to = addressee(values);
    const payload = await readPayload(json);
    // The node checks the type, and names those that exist.
    const known = type as 'notification' | undefined;
    const client = await connect();
    const result = await client.call('send', {
      ...to,
      as,
      payload,
      type: known,
      thread,
      justification,
      ttlMs,
      durable,
      attach,
    });
    const { state } = (await client.call('agents')).find(({ id }) => id === result.targetAgentId) ?? {};
    const note = state === 'unstaffed' ? `; it has no worker that would read it. To staff it: ecliptic staff` : '';
    output.value(result, () =>
      result.stored
        ? `stored for ${result.targetAgentId}${note}; see: ecliptic receipt ${result.messageId}`
        : `delivered to ${result.targetAgentId} (${result.path})${note}`,
    );
  },
});

const request = verb({
  summary: 'send a request as an agent and print the answer',
  args: ['JSON'],
  argHelp: JSON_HELP,
  options: {
    as: sender,
    ...recipient,
    timeout: duration('how long to wait for the answer (default: 30s)', 'ms'),
  },
  examples: [
    `--as sun --to mars '{"build":"login"}'`,
    `--as sun --to mars --timeout 2m '"build it"'`,
    `--as sun --capability security.review '{"file":"auth.ts"}' --json`,
  ],
  async run({ call, values, words: [json], output }) {
    const to = addressee(values);
    const { as, timeout: timeoutMs } = values;
    const answer = await call('request', { ...to, as, payload: await readPayload(json), timeoutMs });
    output.value(answer, () => JSON.stringify(answer, null, 2));
  },
});

const broadcast = verb({
  summary: 'send one message to every other agent',
  args: ['JSON'],
  argHelp: JSON_HELP,
  options: { as: sender },
  examples: [`--as sun '{"directive":"freeze"}'`],
  async run({ call, values: { as }, words: [json], output }) {
    const result = await call('broadcast', { as, payload: await readPayload(json) });
    output.value(result, () => {
      const { recipients, delivered, withheld, failed, withheldByCode } = result.broadcast!;
      const codes = Object.entries(withheldByCode).map(([code, count]) => `${count} ${code}`);
      const why = codes.length > 0 ? ` (${codes.join(', ')})` : '';
      return `delivered to ${delivered} of ${recipients} agents; withheld from ${withheld}${why}, failed for ${failed}`;
    });
  },
});

const tell = verb({
  summary: 'send a text to an agent as yourself, sealed with a key that no agent has',
  args: ['NAME', 'TEXT'],
  options: {
    'reply-to': text('ID', 'the message of that agent that this answers; see: ecliptic inbox'),
  },
  examples: ['alice "Stop at the next commit, please."', 'bob@laptop "You have my go."'],
  async run({ call, values, words: [to, said], output }) {
    const told = await call('tell', { to, text: said, replyTo: values['reply-to'] });
    output.value(told, () => `${told.id} to ${told.to}; see: ecliptic receipt ${told.id}`);
  },
});

const reply = verb({
  summary: 'answer a message to you, here or on another of your devices',
  args: ['ID', 'TEXT'],
  argHelp: [['ID', 'as `ecliptic inbox` or `ecliptic waiting` shows it']],
  examples: ['01JD… "Yes, go ahead."', '01JD…@3f9a "Use the second branch."'],
  async run({ connect, call, words: [given, said], output }) {
    const bare = given.replace(/^mail:/, '');
    const id = bare.includes('@') ? bare : ((await idElsewhere(await connect(), bare)) ?? bare);
    if (id.includes('@')) {
      const answered = await call('waiting.answer', { id: `mail:${id}`, action: 'reply', text: said });
      const where = answered.node === null ? '' : ` on ${answered.node.name}`;
      const state = answered.state === 'sent' ? '; not confirmed yet, this node repeats it' : '';
      return output.value(answered, () => `answered ${answered.id}${where}${state}`);
    }
    const told = await call('reply', { id, text: said });
    output.value(told, () => `${told.id} to ${told.to}; see: ecliptic receipt ${told.id}`);
  },
});

const inbox = verb({
  summary: 'list messages to you, or to an agent of this node, that are not dealt with yet',
  options: {
    as: text('AGENT', 'whose inbox: an agent of this node (default: operator, which is you)'),
    wait: flag('if it is empty, wait for the next message'),
    done: list('LIST', 'close these messages to you; to answer one: ecliptic reply ID TEXT'),
  },
  examples: ['', '--wait', '--done 01JD…', '--as mars --wait --json'],
  async run({ connect, values: { as = 'operator', wait, done }, output }) {
    if (done && as !== 'operator') throw usage('--done closes messages to you, not to an agent');
    const client = await connect();
    process.on('SIGINT', () => client.close());
    const waitMs = wait ? Number.MAX_SAFE_INTEGER : undefined;
    const page = (after: number) => client.call('inbox', after === 0 ? { as, waitMs } : { as, after });
    if (as !== 'operator') return mailTable(output, await allMail(page), 'the inbox is empty');
    if (done) {
      await client.call('owner.done', { ids: done });
      return output.value({ done }, () => `${done.length} closed`);
    }
    const rows = await allMail(page);
    const elsewhere = await mailElsewhere(client);
    const none = elsewhere.length === 0 ? ['no agent has written to you'] : [];
    const texts = [...(rows.length > 0 ? rows.map(letter) : none), ...elsewhere.map(foreignLetter)];
    output.value([...rows, ...elsewhere.map(foreignMail)], () => texts.join('\n'));
    await client.call('owner.shown', { ids: rows.map(({ id }) => id) });
  },
});

type ForeignLetter = WaitingItem & { readonly node: Device };

/** Messages to the owner that wait on other devices. */
async function mailElsewhere(client: ControlClient): Promise<ForeignLetter[]> {
  const { items } = await client.call('waiting');
  return items.flatMap((item) => (item.kind === 'mail' && item.node !== null ? [{ ...item, node: item.node }] : []));
}

/** The id there of a message that no agent wrote here. */
async function idElsewhere(client: ControlClient, given: string): Promise<string | undefined> {
  const { items } = await client.call('waiting');
  const found = items.filter(({ id }) => id.startsWith(`mail:${given}`));
  return found.length === 1 && found[0]!.node !== null ? found[0]!.id.slice('mail:'.length) : undefined;
}

function foreignLetter({ id, from, node, since, details }: ForeignLetter): string {
  const short = id.slice('mail:'.length, id.length - node.node.length + KEY_DIGITS);
  const needs = textOf(details, 'needs');
  const time = since === null ? '' : timeText(since, 'seconds');
  const head = `${short}  ${shortAddress(from)} on ${node.name}  ${time}${needs === undefined ? '' : `  needs ${needs}`}`;
  return indented(head, textOf(details, 'message') ?? '');
}

/** What this node knows of it, in the form of its own mail. */
function foreignMail({ id, from, node, since, until, details }: ForeignLetter) {
  const needs = textOf(details, 'needs');
  const payload = { text: textOf(details, 'message') ?? '', ...(needs !== undefined && { mesh: { needs } }) };
  return { id: id.slice('mail:'.length), from, to: 'operator', payload, at: since, expiresAt: until, node };
}

function textOf(details: readonly Detail[], wanted: string): string | undefined {
  return details.find(({ label }) => label === wanted)?.text;
}

function indented(head: string, body: string): string {
  return [head, ...body.split('\n').map((line) => `  ${line}`)].join('\n');
}

/** A message to the operator, in full. */
function letter({ id, from, at, payload }: MailRow): string {
  const { text: said, mesh } = (payload ?? {}) as { text?: unknown; mesh?: { needs?: unknown } };
  const needs = mesh?.needs === undefined || mesh.needs === 'none' ? '' : `  needs ${mesh.needs}`;
  const body = typeof said === 'string' ? said : JSON.stringify(payload);
  return indented(`${id}  ${shortAddress(from)}  ${timeText(at, 'seconds')}${needs}`, body);
}

const outbox = verb({
  summary: 'list durable messages that have not reached the nodes of their recipients',
  examples: ['', '--json'],
  async run({ connect, output }) {
    const client = await connect();
    mailTable(output, await allMail((after) => client.call('outbox', { after })), 'nothing waits to go out');
  },
});

/** All pages of a list. */
async function allMail(next: (after: number) => Promise<MailRow[]>): Promise<MailRow[]> {
  const rows: MailRow[] = [];
  for (let page = await next(0); page.length > 0; page = await next(page.at(-1)!.number)) rows.push(...page);
  return rows;
}

function mailTable(output: Output, rows: readonly MailRow[], none: string): void {
  output.rows(rows, none, (row) => ({
    ID: row.id,
    FROM: shortAddress(row.from),
    TO: shortAddress(row.to),
    TYPE: row.type,
    STATE: row.state,
    SINCE: timeText(row.at, 'seconds'),
    PAYLOAD: cutText(JSON.stringify(row.payload), 60),
  }));
}

const receipt = verb({
  summary: 'show the delivery states of a durable message',
  args: ['ID'],
  examples: ['01JD…', '01JD… --json'],
  async run({ call, words: [id], output }) {
    const found = await call('receipt', { id });
    output.value(found, () =>
      found.story
        .map(({ state, at, reason }) => `${new Date(at).toISOString()}  ${state}${reason ? `: ${reason}` : ''}`)
        .join('\n'),
    );
  },
});

const thread = verb({
  summary: 'show the messages of a conversation, and the work of providers for it',
  args: ['ID'],
  examples: ['01JCQX4M0V7Y8Z9ABCDEFGHJKM'],
  async run({ connect, words: [id], output }) {
    const client = await connect();
    const envelopes: A2AEnvelope[] = [];
    // A long conversation comes in pages.
    for (let page = await client.call('thread', { id }); page.length > 0; ) {
      envelopes.push(...page);
      page = await client.call('thread', { id, from: envelopes.length });
    }
    const events = await client.call('thread.events', { id: envelopes[0]?.correlationId ?? id });
    const all = [...envelopes, ...events].sort((a, b) => a.timestamp - b.timestamp);
    output.rows(all, 'no messages are known of that thread', (one) => ({
      TIME: timeText(one.timestamp, 'time'),
      ...threadCells(one),
    }));
  },
});

function threadCells(one: A2AEnvelope | A2ALogEvent): Cells {
  if ('schemaVersion' in one) {
    const { sender, recipient, type, payload } = one;
    const shown = payload === undefined ? 'not kept' : shortText(JSON.stringify(payload));
    return { FROM: sender, TO: recipient, TYPE: type, PAYLOAD: shown };
  }
  const { sender: from = '', provider = '', topic = '', code, reason, duration: ms, details } = one as A2ALogEvent;
  const parts = [
    ...(code === undefined ? [] : [`${code}: ${reason ?? ''}`]),
    ...(ms === undefined ? [] : [`${Math.round(ms)} ms`]),
    ...(details ? [JSON.stringify(details)] : []),
  ];
  return { FROM: from, TO: provider, TYPE: topic, PAYLOAD: shortText(parts.join(' ')) };
}

function shortText(long: string): string {
  return long.length > 80 ? `${cutText(long, 79)}…` : long;
}

export const verbs = { send, request, broadcast, tell, inbox, reply, outbox, receipt, thread };
