import { useState } from 'preact/hooks';
import type { PeerRow } from '../../src/network/peers/network.js';
import type { Diagnosis } from '../../src/node/control/rows.js';
import { read } from '../api.js';
import { Empty, Stale } from '../parts/empty.js';
import { Ago, State } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { Section, Table } from '../parts/table.js';
import { act, tell } from '../store.js';
import { useRead } from '../stream.js';
import { MESH_TEXT } from '../text/mesh.js';
import { InviteForm } from './invite.js';

/** The other devices, invitations for more, and the diagnosis of this one. */
export function Mesh() {
  const { value: peers, error } = useRead<readonly PeerRow[]>('peers');
  if (!peers) {
    if (error === undefined) return <Unread reading={MESH_TEXT.loading} />;
    return (
      <Empty>
        {MESH_TEXT.noMesh} {error}
      </Empty>
    );
  }
  return (
    <>
      <Stale error={error} />
      <Section title={MESH_TEXT.peers.title}>
        {peers.length === 0 ? (
          <Empty command={MESH_TEXT.peers.noneCommand}>{MESH_TEXT.peers.none}</Empty>
        ) : (
          <Table label={MESH_TEXT.peers.label} columns={MESH_TEXT.peers.columns}>
            {peers.map((peer) => (
              <Row key={peer.node} peer={peer} />
            ))}
          </Table>
        )}
      </Section>
      <InviteForm />
      <Doctor />
    </>
  );
}

function Row({ peer }: { peer: PeerRow }) {
  const { node, name, state, reason, link, since, agents, tiers, sandboxes, software, expiresAt } = peer;
  const { roundTripMs, clockSkewMs, owner, lastHeard } = peer;
  const text = MESH_TEXT.peers;
  const skew = clockSkewMs !== null && Math.abs(clockSkewMs) >= 1_000 ? text.skew(clockSkewMs) : undefined;
  return (
    <tr>
      <th scope="row">
        {name}{' '}
        <span class="dim mono" title={node}>
          {node.slice(0, 8)}
        </span>
        <div class="dim">
          {software} {owner && text.owner}
        </div>
      </th>
      <td>
        <State state={state} />
        <div class="dim nowrap">
          {state === 'idle' && lastHeard !== null && `${text.lastHeard} `}
          <Ago at={state === 'idle' && lastHeard !== null ? lastHeard : since} />
        </div>
        {reason !== null && <div class="dim">{reason}</div>}
      </td>
      <td>
        {link}
        {roundTripMs !== null && state === 'connected' && <div class="mono nowrap">{text.roundTrip(roundTripMs)}</div>}
        {skew !== undefined && <div class="warn">{skew}</div>}
      </td>
      <td>
        {text.grants(tiers, sandboxes)}
        {expiresAt !== null && (
          <div class="dim nowrap">
            {text.expires} <Ago at={expiresAt} />
          </div>
        )}
      </td>
      <td class="mono nowrap">{text.agents(agents)}</td>
      <td>
        <Remove node={node} name={name || node.slice(0, 8)} />
      </td>
    </tr>
  );
}

function Remove({ node, name }: { node: string; name: string }) {
  const [isAsking, setAsking] = useState(false);
  const text = MESH_TEXT.peers;
  if (!isAsking) {
    return (
      <button type="button" aria-label={`${text.remove} ${name}`} onClick={() => setAsking(true)}>
        {text.remove}
      </button>
    );
  }
  const remove = async () => {
    setAsking(false);
    if ((await act('peers.remove', { node })) !== undefined) tell(text.removed(name));
  };
  return (
    <fieldset class="ask">
      <legend class="warn">{text.ask(name)}</legend>
      <p class="actions">
        <button type="button" class="main" onClick={() => void remove()}>
          {text.yes}
        </button>
        {/* biome-ignore lint/a11y/noAutofocus: the harmless answer to the question that the owner has just caused */}
        <button type="button" autoFocus onClick={() => setAsking(false)}>
          {text.no}
        </button>
      </p>
    </fieldset>
  );
}

const MARKS = { ok: ['●', 'good'], warning: ['▲', 'warn'], problem: ['✕', 'bad'] } as const;

function Doctor() {
  const [state, setState] = useState<Diagnosis | string | 'running' | undefined>(undefined);
  const text = MESH_TEXT.doctor;
  const run = async () => {
    setState('running');
    try {
      setState(await read<Diagnosis>('doctor'));
    } catch (error) {
      setState(text.failed(String((error as Error).message)));
    }
  };
  return (
    <Section title={text.title}>
      <p class="dim">{text.about}</p>
      <p>
        <button type="button" disabled={state === 'running'} onClick={() => void run()}>
          {state === 'running' ? text.running : text.run}
        </button>
      </p>
      <div role="status">
        {typeof state === 'string' && state !== 'running' && <p class="bad">{state}</p>}
        {typeof state === 'object' && <Findings diagnosis={state} />}
      </div>
    </Section>
  );
}

function Findings({ diagnosis: { findings, healthy } }: { diagnosis: Diagnosis }) {
  const text = MESH_TEXT.doctor;
  const order = ['problem', 'warning', 'ok'];
  const sorted = [...findings].sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  const problems = findings.filter(({ level }) => level === 'problem').length;
  return (
    <>
      <p class={healthy ? 'good' : 'bad'}>{healthy ? text.healthy : text.problems(problems)}</p>
      <ul class="findings">
        {sorted.map(({ level, text: finding }) => (
          <li key={`${level} ${finding}`}>
            <span class={`nowrap ${MARKS[level][1]}`}>
              <span aria-hidden="true">{MARKS[level][0]}</span> {text.levels[level]}
            </span>{' '}
            <span>{finding}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
