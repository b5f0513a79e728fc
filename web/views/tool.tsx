import { useState } from 'preact/hooks';
import type { AgentRow, ToolRow } from '../../src/node/control/rows.js';
import { ApiError, post } from '../api.js';
import { Empty } from '../parts/empty.js';
import { AgentName, Json } from '../parts/facts.js';
import { Choice, Field, Form } from '../parts/form.js';
import { Unread } from '../parts/read.js';
import { argumentsOf, type Entered, type ObjectSchema, SchemaFields } from '../parts/schema-form.js';
import { Crumb, Section } from '../parts/table.js';
import { useRead } from '../stream.js';
import { PARTS_TEXT } from '../text/parts.js';
import { TOOLS_TEXT } from '../text/tools.js';
import { OPERATOR } from './thread.js';
import { Records } from './tool-records.js';

interface ToolResult {
  readonly content?: readonly { readonly type: string; readonly text?: string }[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

type Outcome = { readonly result: ToolResult } | { readonly code: string | undefined; readonly message: string };

/** One tool: its description, the form of its arguments, and its latest calls. */
export function ToolView({ name }: { name: string }) {
  const { value: tools, error } = useRead<readonly ToolRow[]>('tools');
  const tool = tools?.find((one) => one.name === name);
  return (
    <>
      <Crumb place="tools" title={name}>
        {tool && <AgentName address={tool.agent} />}
      </Crumb>
      {!tools && <Unread error={error} />}
      {tools && !tool && <Empty>{TOOLS_TEXT.unknown(name)}</Empty>}
      {tool && <Tool tool={tool} />}
      <Records tool={name} />
    </>
  );
}

function Tool({ tool }: { tool: ToolRow }) {
  const { name, title, description, inputSchema = {} } = tool;
  return (
    <>
      {title !== undefined && <p class="padded">{title}</p>}
      {description !== undefined && <p class="said padded">{description}</p>}
      <Call name={name} schema={inputSchema as ObjectSchema} />
      <Section title={TOOLS_TEXT.schema}>
        <Json value={inputSchema} label={PARTS_TEXT.json} />
      </Section>
    </>
  );
}

function Call({ name, schema }: { name: string; schema: ObjectSchema }) {
  const { value: agents } = useRead<readonly AgentRow[]>('agents');
  const [as, setAs] = useState(OPERATOR);
  const [entered, setEntered] = useState<Entered>({});
  const [errors, setErrors] = useState<Entered>({});
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome | undefined>();
  const own = (agents ?? []).filter(({ node, id }) => node === null && id !== OPERATOR).map(({ id }) => id);
  const submit = async () => {
    const read = argumentsOf(schema, entered);
    if (busy) return;
    // A result beside other arguments would be taken for theirs.
    setOutcome(undefined);
    setErrors('errors' in read ? read.errors : {});
    if ('errors' in read) return;
    setBusy(true);
    setOutcome(await call(name, read.value, as));
    setBusy(false);
  };
  return (
    <>
      <Form label={TOOLS_TEXT.callLabel(name)} busy={busy} submit={() => void submit()} button={TOOLS_TEXT.call}>
        <SchemaFields schema={schema} entered={entered} errors={errors} change={setEntered} />
        <Field label={TOOLS_TEXT.as}>
          <Choice
            value={as}
            options={[[OPERATOR, TOOLS_TEXT.you], ...own.sort().map((id) => [id, id] as const)]}
            change={setAs}
          />
        </Field>
      </Form>
      {(busy || outcome) && (
        <Section title={TOOLS_TEXT.result}>
          <div role="status" class="result">
            {outcome ? <Result outcome={outcome} /> : <p class="dim">{TOOLS_TEXT.calling}</p>}
          </div>
        </Section>
      )}
    </>
  );
}

async function call(tool: string, args: Record<string, unknown>, as: string): Promise<Outcome> {
  try {
    return { result: await post<ToolResult>('call', { tool, arguments: args, ...(as !== OPERATOR && { as }) }) };
  } catch (error) {
    return { code: error instanceof ApiError ? error.code : undefined, message: (error as Error).message };
  }
}

/** Parts that are no text are named, never run or loaded. */
function Result({ outcome }: { outcome: Outcome }) {
  if ('message' in outcome) {
    return (
      <p class="bad">
        <span aria-hidden="true">✕</span> <code>{outcome.code}</code> {outcome.message}
      </p>
    );
  }
  const { content = [], structuredContent, isError } = outcome.result;
  return (
    <>
      {isError && (
        <p class="bad">
          <span aria-hidden="true">✕</span> {TOOLS_TEXT.toolFailed}
        </p>
      )}
      {content.map(({ type, text }, at) => (
        <p key={at} class={text === undefined ? 'dim' : 'said mono'}>
          {text ?? TOOLS_TEXT.otherPart(type)}
        </p>
      ))}
      {structuredContent !== undefined && <Json value={structuredContent} label={PARTS_TEXT.json} />}
      <Json value={outcome.result} label={PARTS_TEXT.raw} />
    </>
  );
}
