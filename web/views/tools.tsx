import { useState } from 'preact/hooks';
import type { UpstreamStatus } from '../../src/mcp/upstream/upstream.js';
import type { PinRow } from '../../src/mcp/upstream/upstreams.js';
import type { ToolRow } from '../../src/node/control/rows.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, State } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { Section, Table } from '../parts/table.js';
import { href } from '../route.js';
import { narrow } from '../store.js';
import { useRead } from '../stream.js';
import { TOOLS_TEXT } from '../text/tools.js';
import { TEXT } from '../text.js';
import { ToolView } from './tool.js';
import { Records } from './tool-records.js';

/** Tools in the list; a search finds the others. */
const SHOWN = 200;

/** Tools, servers and the latest calls; with a name, the form of one tool. */
export function Tools({ rest }: { rest: string }) {
  if (rest !== '') return <ToolView key={rest} name={rest} />;
  return (
    <>
      <Changed />
      <List />
      <Records />
      <Servers />
    </>
  );
}

/** Definitions of servers that changed are withheld until the owner approves them. */
function Changed() {
  const { value: pins } = useRead<readonly PinRow[]>('tools.pins');
  const count = pins?.filter(({ state }) => state === 'quarantined').length ?? 0;
  if (count === 0) return null;
  return (
    <p class="warn" role="status">
      <span aria-hidden="true">▲</span>{' '}
      {narrow.value ? <a href={href('needs')}>{TOOLS_TEXT.changed(count)}</a> : TOOLS_TEXT.changed(count)}
    </p>
  );
}

function List() {
  const [text, setText] = useState('');
  const { value: tools, error } = useRead<readonly ToolRow[]>('tools');
  const words = text.toLowerCase().split(/\s+/);
  const found = tools?.filter(({ name, description = '', title = '' }) => {
    const whole = `${name} ${title} ${description}`.toLowerCase();
    return words.every((word) => whole.includes(word));
  });
  return (
    <>
      {tools ? <Stale error={error} /> : <Unread error={error} />}
      {tools?.length === 0 && <Empty command={TOOLS_TEXT.noneCommand}>{TOOLS_TEXT.none}</Empty>}
      {tools && tools.length > 0 && (
        <p class="filters">
          <input
            type="search"
            aria-label={TOOLS_TEXT.search}
            placeholder={TOOLS_TEXT.search}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <span class="dim nowrap">
            {found!.length} / {tools.length}
          </span>
        </p>
      )}
      {found && found.length === 0 && text !== '' && <Empty>{TOOLS_TEXT.noMatch}</Empty>}
      {found && found.length > 0 && (
        <Table columns={TOOLS_TEXT.columns} label={TEXT.places.tools}>
          {found.slice(0, SHOWN).map(({ name, description, agent }) => (
            <tr key={name}>
              <th scope="row">
                <a class="mono" href={href('tools', name)}>
                  {name}
                </a>
              </th>
              <td class="why">
                <span class="excerpt">{description}</span>
              </td>
              <td>
                <AgentName address={agent} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

function Servers() {
  const { value: servers, error } = useRead<readonly UpstreamStatus[]>('tools.servers');
  return (
    <Section title={TOOLS_TEXT.servers}>
      {servers ? <Stale error={error} /> : <Unread error={error} />}
      {servers?.length === 0 && <p class="dim">{TOOLS_TEXT.noServers}</p>}
      {servers && servers.length > 0 && (
        <Table columns={TOOLS_TEXT.serverColumns} label={TOOLS_TEXT.servers}>
          {servers.map(({ name, transport, state, reason, offered, quarantined, problems }) => (
            <tr key={name}>
              <th scope="row" class="mono">
                {name} <span class="dim">{transport}</span>
              </th>
              <td>
                <State state={state} />
              </td>
              <td class="nowrap">{TOOLS_TEXT.offers(offered.tool, quarantined)}</td>
              <td class="why">{[reason, ...problems].filter(Boolean).join('; ')}</td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}
