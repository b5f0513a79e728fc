import { useState } from 'preact/hooks';
import type { RoutingResult } from '../../src/mesh/schemas.js';
import type { AgentRow } from '../../src/node/control/rows.js';
import { ApiError, post } from '../api.js';
import { addressOf } from '../orrery/sky.js';
import { Id, shortAddress } from '../parts/facts.js';
import { Choice, Field, Form, jsonOrText, readJson } from '../parts/form.js';
import { Payload } from '../parts/payload.js';
import { Section } from '../parts/table.js';
import { href } from '../route.js';
import { useRead } from '../stream.js';
import { SEND_TEXT } from '../text/send.js';
import { OPERATOR } from './thread.js';

type Kind = keyof typeof SEND_TEXT.kinds;
const KINDS = Object.entries(SEND_TEXT.kinds);

/** What the form is filled in with; the address of the page carries it. */
export interface Draft {
  readonly what?: Kind;
  readonly as?: string;
  readonly to?: string;
  /** The payload, the description of a task, or the arguments of a tool. */
  readonly text?: string;
  readonly type?: string;
}

interface Outcome {
  readonly ok: boolean;
  readonly said: string;
  readonly code?: string;
  readonly id?: string;
  readonly label?: string;
  readonly value?: unknown;
}

/** The address of the form, filled in. */
export function sendAddress(draft: Draft): string {
  return href('send', JSON.stringify(draft));
}

/** Sends a message, a request, a task or a tool call, and shows what became of it. */
export function Send({ rest }: { rest: string }) {
  return <Composer key={rest} draft={draftIn(rest)} />;
}

function draftIn(rest: string): Draft {
  const parsed = rest === '' ? {} : readJson(rest);
  const given = 'value' in parsed && typeof parsed.value === 'object' ? (parsed.value ?? {}) : {};
  // The address may come from anywhere: only texts are taken from it, and nothing is sent before the button is pressed.
  const texts = Object.entries(given).filter(([, value]) => typeof value === 'string');
  const { what, ...draft } = Object.fromEntries(texts) as Record<keyof Draft, string>;
  return { ...draft, ...(what in SEND_TEXT.kinds && { what: what as Kind }) };
}

function Composer({ draft }: { draft: Draft }) {
  const [what, setWhat] = useState<Kind>(draft.what ?? 'message');
  const [as, setAs] = useState(draft.as ?? OPERATOR);
  const [to, setTo] = useState(draft.to ?? '');
  const [text, setText] = useState(draft.text ?? '');
  const [type, setType] = useState<string>(draft.type ?? SEND_TEXT.types[0]);
  const [justification, setJustification] = useState('');
  const [durable, setDurable] = useState(false);
  const [error, setError] = useState<{ field: 'to' | 'text'; said: string } | undefined>();
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome | undefined>();
  const { value: agents } = useRead<readonly AgentRow[]>('agents');
  const own = (agents ?? []).filter(({ node }) => node === null).map(({ id }) => id);
  const submit = async () => {
    if (busy) return;
    setError(undefined);
    if (to.trim() === '') return setError({ field: 'to', said: SEND_TEXT.noTo });
    const args = what === 'tool' ? readJson(text.trim() || '{}') : undefined;
    if (args && 'error' in args) return setError({ field: 'text', said: SEND_TEXT.notJson(args.error) });
    setBusy(true);
    setOutcome(undefined);
    const tool = args && 'value' in args ? args.value : undefined;
    setOutcome(await run({ what, as, to: to.trim(), text, type, justification, durable, tool }));
    setBusy(false);
  };
  const others = [OPERATOR, ...own.filter((id) => id !== OPERATOR).sort()];
  const isTool = what === 'tool';
  return (
    <>
      <Form label={SEND_TEXT.label} busy={busy} submit={() => void submit()} button={SEND_TEXT.send}>
        <div class="side-by-side">
          <Field label={SEND_TEXT.kind} hint={SEND_TEXT.hints[what]}>
            <Choice value={what} options={KINDS} change={(kind) => setWhat(kind as Kind)} />
          </Field>
          <Field label={SEND_TEXT.as} hint={SEND_TEXT.asHint}>
            <Choice
              value={as}
              options={others.map((id) => [id, id === OPERATOR ? SEND_TEXT.you : id])}
              change={setAs}
            />
          </Field>
        </div>
        <Field
          label={isTool ? SEND_TEXT.tool : SEND_TEXT.to}
          hint={isTool ? SEND_TEXT.toolHint : SEND_TEXT.toHint}
          error={error?.field === 'to' ? error.said : undefined}
        >
          <input value={to} list="send-agents" maxLength={300} onInput={(event) => setTo(event.currentTarget.value)} />
        </Field>
        <datalist id="send-agents">
          {!isTool &&
            agents
              ?.map(addressOf)
              .map((address) => <option key={address} value={address} label={shortAddress(address)} />)}
        </datalist>
        <Field
          label={isTool ? SEND_TEXT.arguments : what === 'task' ? SEND_TEXT.task : SEND_TEXT.payload}
          hint={isTool ? SEND_TEXT.argumentsHint : what === 'task' ? undefined : SEND_TEXT.payloadHint}
          error={error?.field === 'text' ? error.said : undefined}
        >
          <textarea rows={5} class="mono" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </Field>
        {what === 'message' && (
          <>
            <div class="side-by-side">
              <Field label={SEND_TEXT.type}>
                <Choice value={type} options={SEND_TEXT.types.map((one) => [one, one])} change={setType} />
              </Field>
              <Field label={SEND_TEXT.justification} hint={SEND_TEXT.justificationHint}>
                <input value={justification} onInput={(event) => setJustification(event.currentTarget.value)} />
              </Field>
            </div>
            <label class="check">
              <input type="checkbox" checked={durable} onChange={(event) => setDurable(event.currentTarget.checked)} />{' '}
              {SEND_TEXT.durable}
            </label>
          </>
        )}
      </Form>
      {(busy || outcome) && (
        <Section title={SEND_TEXT.outcome}>
          <div role="status">{outcome ? <Result outcome={outcome} /> : <p class="dim">{SEND_TEXT.sending}</p>}</div>
        </Section>
      )}
    </>
  );
}

function Result({ outcome: { ok, said, code, id, label, value } }: { outcome: Outcome }) {
  return (
    <>
      <p class={ok ? 'good' : 'bad'}>
        <span aria-hidden="true">{ok ? '●' : '✕'}</span> {code !== undefined && <code>{code}</code>} {said}{' '}
        {id !== undefined && <Id id={id} />}
      </p>
      {label !== undefined && (
        <figure>
          <figcaption class="dim">{label}</figcaption>
          <Payload value={value} />
        </figure>
      )}
    </>
  );
}

interface Sent {
  readonly what: Kind;
  readonly as: string;
  readonly to: string;
  readonly text: string;
  readonly type: string;
  readonly justification: string;
  readonly durable: boolean;
  readonly tool: unknown;
}

/** A refusal is an outcome, too: its code and reason are shown where the reply would be. */
async function run(sent: Sent): Promise<Outcome> {
  try {
    return await perform(sent);
  } catch (error) {
    const code = error instanceof ApiError ? error.code : undefined;
    return { ok: false, said: (error as Error).message, ...(code !== undefined && { code }) };
  }
}

async function perform({ what, as, to, text, type, justification, durable, tool }: Sent): Promise<Outcome> {
  const actor = as === OPERATOR ? {} : { as };
  switch (what) {
    case 'message':
      return routed(
        await post<RoutingResult>('send', {
          ...{ as, to, payload: jsonOrText(text), type, durable },
          ...(justification !== '' && { justification }),
        }),
      );
    case 'request':
      return answered(SEND_TEXT.reply, await post('request', { as, to, payload: jsonOrText(text) }));
    case 'task':
      return answered(SEND_TEXT.result, await post('propose', { ...actor, to, description: text, durable: true }));
    case 'tool': {
      const value = await post<{ isError?: boolean }>('call', { ...actor, tool: to, arguments: tool });
      return { ...answered(SEND_TEXT.result, value), ok: value.isError !== true };
    }
  }
}

function answered(label: string, value: unknown): Outcome {
  return { ok: true, said: label.toLowerCase(), label, value };
}

function routed({ delivered, stored, path, error, reason, messageId }: RoutingResult): Outcome {
  const id = messageId === undefined ? {} : { id: messageId };
  if (stored) return { ok: true, said: SEND_TEXT.stored, ...id };
  if (delivered) return { ok: true, said: SEND_TEXT.delivered(path), ...id };
  return { ok: false, said: reason ?? '', ...(error !== undefined && { code: error }), ...id };
}
