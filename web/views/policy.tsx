import { useState } from 'preact/hooks';
import type { MessageLine } from '../../src/http/dashboard/facts.js';
import type { AuditReport } from '../../src/mesh/audit/audit-log.js';
import type { AuditedEvent, PolicyMatrix } from '../../src/node/control/policy-rows.js';
import { read } from '../api.js';
import { Empty, Stale } from '../parts/empty.js';
import { Clock, Id, shortAddress } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { Section, Table } from '../parts/table.js';
import { lineKey } from '../store.js';
import { useRead } from '../stream.js';
import { POLICY_TEXT } from '../text/policy.js';
import { SandboxMatrix, TierMatrix } from './policy-matrix.js';
import { Ask, type Question } from './policy-question.js';

const LATEST = 30;

/** The rules as they are, questions to them, and what they refused. */
export function Policy() {
  const { value: matrix, error } = useRead<PolicyMatrix>('policy.matrix');
  const [question, setQuestion] = useState<Question | undefined>(undefined);
  return (
    <>
      <Stale error={error} />
      <Ask given={question} />
      {matrix ? (
        <>
          <TierMatrix cells={matrix.tiers} />
          <SandboxMatrix cells={matrix.sandboxes} />
        </>
      ) : (
        <Unread reading={POLICY_TEXT.loading} />
      )}
      <Refusals
        ask={({ from, to, type }) => {
          setQuestion({ from, to, type });
          document.getElementById('view')?.scrollTo({ top: 0 });
        }}
      />
      <Events />
      <Audit />
    </>
  );
}

function Refusals({ ask }: { ask: (line: MessageLine) => void }) {
  const { value, error } = useRead<readonly MessageLine[]>(`refusals?limit=${LATEST}`);
  const text = POLICY_TEXT.refusals;
  const lines = [...(value ?? [])].reverse();
  return (
    <Section title={text.title}>
      <Stale error={error} />
      {value?.length === 0 && <Empty command={text.noneCommand}>{text.none}</Empty>}
      {lines.length > 0 && (
        <Table label={text.label} columns={text.columns}>
          {lines.map((line) => (
            <tr key={lineKey(line)}>
              <td>
                <Clock at={line.at} />
              </td>
              <th scope="row" class="mono" title={`${line.from} → ${line.to}`}>
                {shortAddress(line.from)} → {shortAddress(line.to)} <Id id={line.id} />
              </th>
              <td>{line.type}</td>
              <td class="bad">
                <span aria-hidden="true">✕</span> {POLICY_TEXT.ask.rules[line.code ?? ''] ?? ''}{' '}
                <span class="mono">{line.code}</span>
              </td>
              <td>
                <button type="button" onClick={() => ask(line)}>
                  {text.again}
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

function Events() {
  const { value, error } = useRead<readonly AuditedEvent[]>(`audit.events?limit=${LATEST}`);
  const text = POLICY_TEXT.events;
  return (
    <Section title={text.title}>
      <Stale error={error} />
      {value?.length === 0 && <p class="dim">{text.none}</p>}
      {value && value.length > 0 && (
        <Table label={text.label} columns={text.columns}>
          {value.map(({ seq, at, event, about: subject }) => (
            <tr key={seq}>
              <td class="mono">{seq}</td>
              <td>
                <Clock at={at} />
              </td>
              <th scope="row">{event.topic ?? event.peerStatus ?? event.type}</th>
              <td class="mono">{[parties(event), subject].filter(Boolean).join(': ')}</td>
              <td class={event.code === undefined ? '' : 'bad'}>{event.reason ?? event.code}</td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

function parties({ sender, recipient, node, provider, toolName }: AuditedEvent['event']): string {
  return [sender, recipient, node?.slice(0, 8), provider, toolName]
    .flatMap((one) => one ?? [])
    .map(shortAddress)
    .join(' ');
}

function Audit() {
  const [state, setState] = useState<AuditReport | string | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const text = POLICY_TEXT.audit;
  const verify = async () => {
    setBusy(true);
    try {
      setState(await read<AuditReport>('audit.verify'));
    } catch (error) {
      setState(String((error as Error).message));
    }
    setBusy(false);
  };
  return (
    <Section title={text.title}>
      <p class="dim">{text.about}</p>
      <p>
        <button type="button" disabled={isBusy} onClick={() => void verify()}>
          {isBusy ? text.verifying : text.verify}
        </button>
      </p>
      <div role="status">
        {typeof state === 'object' && (
          <p class="good">
            <span aria-hidden="true">●</span> {text.intact(state.rows)}
          </p>
        )}
        {typeof state === 'string' && (
          <p class="bad">
            <span aria-hidden="true">✕</span> {state}
          </p>
        )}
      </div>
    </Section>
  );
}
