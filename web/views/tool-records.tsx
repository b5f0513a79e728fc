import type { InvocationRecord } from '../../src/mcp/invocations.js';
import { Stale } from '../parts/empty.js';
import { AgentName, Ago, Id, Json, State } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { Section, Table } from '../parts/table.js';
import { href } from '../route.js';
import { keyOf, useRead } from '../stream.js';
import { PARTS_TEXT } from '../text/parts.js';
import { TOOLS_TEXT } from '../text/tools.js';

const RECORDS = 50;

/** The latest calls, of one tool or of all, newest first. */
export function Records({ tool }: { tool?: string }) {
  const limit = tool === undefined ? RECORDS : 1_000;
  const { value, error } = useRead<readonly InvocationRecord[]>(keyOf('invocations', { limit }));
  const records = value
    ?.filter((record) => tool === undefined || record.tool === tool)
    .slice(-RECORDS)
    .reverse();
  return (
    <Section title={TOOLS_TEXT.records}>
      {records ? <Stale error={error} /> : <Unread error={error} />}
      {records?.length === 0 && (
        <p class="dim">{tool === undefined ? TOOLS_TEXT.noRecordsAtAll : TOOLS_TEXT.noRecords}</p>
      )}
      {records && records.length > 0 && (
        <Table columns={TOOLS_TEXT.recordColumns} label={TOOLS_TEXT.records}>
          {records.map((record) => (
            <Record key={record.id} record={record} />
          ))}
        </Table>
      )}
    </Section>
  );
}

function Record({ record }: { record: InvocationRecord }) {
  const { id, tool, caller, startedAt, durationMs, error, result } = record;
  return (
    <tr>
      <td>
        <Ago at={startedAt} />
      </td>
      <th scope="row">
        <a class="mono" href={href('tools', tool)}>
          {tool}
        </a>
      </th>
      <td>
        <AgentName address={caller} />
      </td>
      <td class="mono nowrap">{PARTS_TEXT.ms(durationMs)}</td>
      <td class="why">
        {error ? (
          <p class="bad">
            <span aria-hidden="true">✕</span> <code>{error.code}</code> {error.message}
          </p>
        ) : (
          <State state={TOOLS_TEXT.ok} />
        )}
        <Json value={record.arguments} label={TOOLS_TEXT.arguments} />
        {result !== undefined && <Json value={result} label={TOOLS_TEXT.result} />}
      </td>
      <td>
        <Id id={id} />
      </td>
    </tr>
  );
}
