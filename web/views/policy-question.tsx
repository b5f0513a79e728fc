import { useEffect, useState } from 'preact/hooks';
import type { Decision } from '../../src/mesh/policy.js';
import type { A2AMessageType } from '../../src/mesh/schemas.js';
import type { AgentRow } from '../../src/node/control/rows.js';
import { read } from '../api.js';
import { addressOf } from '../orrery/sky.js';
import { shortAddress } from '../parts/facts.js';
import { Section } from '../parts/table.js';
import { keyOf, useRead } from '../stream.js';
import { POLICY_TEXT } from '../text/policy.js';

const TYPES = [
  'request',
  'response',
  'notification',
  'task-proposal',
  'task-accept',
  'task-reject',
  'stream-start',
  'stream-data',
  'stream-end',
  'error',
] as const satisfies readonly A2AMessageType[];
const TEXT = POLICY_TEXT.ask;

export interface Question {
  readonly from: string;
  readonly to: string;
  readonly type: string;
}

type Answer = { readonly question: Question } & ({ readonly decision: Decision } | { readonly error: string });

/** Asks the router's own rules. A given question is asked at once. */
export function Ask({ given }: { given: Question | undefined }) {
  const { value: agents = [] } = useRead<readonly AgentRow[]>('agents');
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const [type, setType] = useState<string>('request');
  const [justification, setJustification] = useState('');
  const [answer, setAnswer] = useState<Answer | undefined>(undefined);
  const ask = async (question: Question, reason: string) => {
    try {
      const key = keyOf('policy', { ...question, justification: reason.trim() || undefined });
      setAnswer({ question, decision: await read<Decision>(key) });
    } catch (error) {
      setAnswer({ question, error: String((error as Error).message) });
    }
  };
  useEffect(() => {
    if (!given) return;
    setFrom(given.from);
    setTo(given.to);
    setType(given.type);
    setJustification('');
    void ask(given, '');
  }, [given]);
  return (
    <Section title={TEXT.title}>
      <form
        class="fields"
        aria-label={TEXT.title}
        onSubmit={(event) => {
          event.preventDefault();
          void ask({ from: from.trim(), to: to.trim(), type }, justification);
        }}
      >
        <datalist id="policy-agents">
          {agents.map((agent) => (
            <option key={addressOf(agent)} value={addressOf(agent)} />
          ))}
        </datalist>
        <label>
          <span class="dim">{TEXT.from}</span>
          <input required list="policy-agents" value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
        </label>
        <label>
          <span class="dim">{TEXT.to}</span>
          <input required list="policy-agents" value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </label>
        <label>
          <span class="dim">{TEXT.type}</span>
          <select value={type} onChange={(event) => setType(event.currentTarget.value)}>
            {TYPES.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="dim">{TEXT.justification}</span>
          <input value={justification} onInput={(event) => setJustification(event.currentTarget.value)} />
        </label>
        <button type="submit" class="main">
          {TEXT.ask}
        </button>
      </form>
      <div role="status">{answer && <Answered answer={answer} />}</div>
    </Section>
  );
}

function Answered({ answer }: { answer: Answer }) {
  const { from, to, type } = answer.question;
  if ('error' in answer) {
    return (
      <p class="warn">
        <span aria-hidden="true">▲</span> {TEXT.unknown(answer.error)}
      </p>
    );
  }
  const { decision } = answer;
  const ends = [shortAddress(from), shortAddress(to), type] as const;
  return (
    <>
      <p class={decision.allowed ? 'good' : 'bad'}>
        <span aria-hidden="true">{decision.allowed ? '●' : '✕'}</span>{' '}
        {decision.allowed ? TEXT.yes(...ends) : TEXT.no(...ends)}
      </p>
      {!decision.allowed && (
        <p>
          {TEXT.rules[decision.code]} <span class="mono">{decision.code}</span>: {decision.reason}
        </p>
      )}
      <p class="dim">
        {TEXT.same} <code>{TEXT.command(...ends)}</code>
      </p>
    </>
  );
}
