import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { activityParts } from '../../src/agent/task-activity.js';
import { agentCapability } from '../../src/providers/registry/provider-agent.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { said, TaskNode } from '../a2a/task-node.js';
import { ScriptedAdapter } from '../providers/scripted-adapter.js';

let served: TaskNode;
let client: OpenAI;

beforeAll(async () => {
  served = await TaskNode.start();
  served.node.agent({ id: 'busy' }).onTask((task) => {
    task.progress(activityParts('open a.txt: pending', { kind: 'tool-call', id: '1', title: 'open a.txt' }));
    task.progress(
      activityParts('open a.txt: done', { kind: 'tool-call', id: '1', title: 'open a.txt', status: 'completed' }),
    );
    task.usage({ inputTokens: 3, outputTokens: 4, modelCalls: 1 });
    const id = task.artifact('one ', { lastChunk: false });
    task.artifact('two', { id, append: true });
  });
  let runs = 0;
  served.node.agent({ id: 'counter' }).onTask(() => {
    throw new Error(`run ${++runs}`);
  });
  served.node.agent({ id: 'files' }).onTask(({ message: { parts } }) => {
    return parts
      .map(({ text, raw, url, mediaType, data }) => text ?? raw ?? url ?? JSON.stringify(data ?? mediaType))
      .join('|');
  });
  served.node.agent({ id: 'former' }).onTask(({ data }) => JSON.stringify(data));
  const check = 'code.check';
  served.node.agent({ id: 'checker', capabilities: [check] }).onTask(() => 'checked', { capabilities: [check] });
  const capabilities = [agentCapability('script')];
  await served.node.providers.register(
    { id: 'script', type: 'exec', capabilities, config: {}, workspaceId: 'default', concurrencyLimit: 1 },
    new ScriptedAdapter(systemRuntime()),
  );
  served.node.agent({ id: 'script' }).onTask(({ text }) => `script said ${text}`);
  client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: served.owner });
});

afterAll(() => served.stop());

const chat = (model: string, content: string) =>
  client.chat.completions.create({ model, messages: [{ role: 'user', content }] });

/** The request fails; resolves with the error. */
async function failure(work: PromiseLike<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const error = await Promise.resolve(work).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(OpenAI.APIError);
  return error as InstanceType<typeof OpenAI.APIError>;
}

describe('the official OpenAI client', () => {
  it('lists the agents that take tasks as models [OA.1]', async () => {
    const ids = (await client.models.list()).data.map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(['echo', 'busy', 'slow']));
    expect(ids).not.toContain('operator');
    expect(await client.models.retrieve('echo')).toMatchObject({ id: 'echo', object: 'model' });
    expect(await failure(client.models.retrieve('nobody'))).toMatchObject({ status: 404, code: 'model_not_found' });
  });

  it('chats with an agent, with instructions, earlier messages and files [OA.1]', async () => {
    const answer = await chat('echo', 'hello');
    expect(answer.choices).toMatchObject([{ message: { content: 'you said hello' }, finish_reason: 'stop' }]);
    expect((await chat('quick', 'you')).choices[0]!.message.content).toBe('hi you');
    const { choices, usage } = await chat('busy', 'go');
    expect([choices[0]!.message.content, usage]).toEqual([
      'one two',
      { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    ]);
    const whole = await client.chat.completions.create({
      model: 'files',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'first' },
        { role: 'assistant', content: 'second' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'third' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          ],
        },
      ],
    });
    expect(whole.choices[0]!.message.content).toBe(
      'Instructions:\nBe brief.\n\nThe conversation so far:\nuser: first\nassistant: second\n\nThe message to answer:\nthird|AAAA',
    );
    const image = [{ type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } }];
    const alone = { model: 'files', messages: [{ role: 'user' as const, content: image }] };
    expect((await client.chat.completions.create(alone)).choices[0]!.message.content).toBe('AAAA');
  });

  it('gives an agent the schema, and no caller of a schema plain text [OA.6]', async () => {
    const messages = [{ role: 'user' as const, content: 'x' }];
    const schema = { type: 'object' };
    const response_format = { type: 'json_schema' as const, json_schema: { name: 'x', schema } };
    const formed = await client.chat.completions.create({ model: 'former', messages, response_format });
    expect(JSON.parse(formed.choices[0]!.message.content!)).toEqual({ outputSchema: schema });
    const plain = client.chat.completions.create({ model: 'echo', messages, response_format });
    expect(await failure(plain)).toMatchObject({ status: 400, param: 'response_format' });
    const stream = await client.chat.completions.create({ model: 'echo', messages, response_format, stream: true });
    const streamed = failure(
      (async () => {
        for await (const _ of stream);
      })(),
    );
    expect(await streamed).toMatchObject({ message: expect.stringContaining('leave out response_format') });
    const text = { format: { type: 'json_schema' as const, name: 'x', schema } };
    expect(await failure(client.responses.create({ model: 'echo', input: 'x', text }))).toMatchObject({ status: 400 });
  });

  it('says that a message is empty, and that a worker gets no files [OA.6]', async () => {
    expect(await failure(chat('echo', ''))).toMatchObject({
      status: 400,
      message: expect.stringContaining('is empty'),
    });
    const input = [{ role: 'user' as const, content: '' }];
    expect(await failure(client.responses.create({ model: 'echo', input }))).toMatchObject({ param: 'input' });
    const image = [{ type: 'image_url' as const, image_url: { url: 'https://example.com/a.png' } }];
    const seen = client.chat.completions.create({ model: 'script', messages: [{ role: 'user', content: image }] });
    expect(await failure(seen)).toMatchObject({
      status: 400,
      message: expect.stringContaining('gets no images'),
    });
    expect((await chat('script', 'x')).choices[0]!.message.content).toContain('script said x');
  });

  it('neither lists nor asks an agent that does only tasks of its tools [OA.6]', async () => {
    expect((await client.models.list()).data.map(({ id }) => id)).not.toContain('checker');
    expect(await failure(client.models.retrieve('checker'))).toMatchObject({ status: 404 });
    expect(await failure(chat('checker', 'x'))).toMatchObject({ status: 501, code: 'no_worker' });
    expect(await failure(client.responses.create({ model: 'checker', input: 'x' }))).toMatchObject({ status: 501 });
  });

  it('streams, and shows tool calls of the agent as lines of text [OA.2]', async () => {
    const stream = await client.chat.completions.create({
      model: 'busy',
      messages: [{ role: 'user', content: 'go' }],
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('> open a.txt\none two');
    expect(chunks.at(-2)!.choices[0]!.finish_reason).toBe('stop');
    expect(chunks.at(-1)!.usage).toMatchObject({ total_tokens: 7 });
    const runner = client.chat.completions.stream({ model: 'echo', messages: [{ role: 'user', content: 'x' }] });
    expect(await runner.finalContent()).toBe('you said x');
  });

  it('gets errors in the shape of its API, and repeats no failed work [OA.3]', async () => {
    expect(await failure(chat('nobody', 'x'))).toMatchObject({
      status: 404,
      code: 'model_not_found',
      type: 'invalid_request_error',
    });
    expect(await failure(chat('counter', 'x'))).toMatchObject({
      type: 'server_error',
      message: expect.stringContaining('run 1'),
    });
    expect(await failure(chat('counter', 'x'))).toMatchObject({ message: expect.stringContaining('run 2') });
    const stream = await client.chat.completions.create({
      model: 'broken',
      messages: [{ role: 'user', content: 'x' }],
      stream: true,
    });
    const broken = failure(
      (async () => {
        for await (const _ of stream);
      })(),
    );
    expect((await broken).message).toContain('no disk');
    const wrong = client.chat.completions.create({ model: 'echo', messages: [], n: 2 });
    expect(await failure(wrong)).toMatchObject({ status: 400, param: 'messages', type: 'invalid_request_error' });
    const refused = await chat('choosy', 'x');
    expect(refused.choices[0]!.message).toMatchObject({ content: null, refusal: 'not for me' });
    const stranger = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: 'ecl_wrong' });
    expect(await failure(stranger.models.list())).toMatchObject({ status: 401, code: 'invalid_api_key' });
  });

  it('ends the task of a request that it gives up, and of a question that a chat cannot go on with [OA.4]', async () => {
    for (const stream of [true, false]) {
      const text = `given up ${stream}`;
      const gone = new AbortController();
      const messages = [{ role: 'user' as const, content: text }];
      const asked = client.chat.completions.create({ model: 'slow', messages, stream }, { signal: gone.signal });
      const held = await served.begun(text);
      if (stream) await asked;
      else asked.catch(() => {});
      gone.abort();
      await new Promise<void>((resolve) => {
        if (held.task.signal.aborted) resolve();
        held.task.signal.addEventListener('abort', () => resolve());
      });
    }
    expect((await chat('asker', 'x')).choices[0]!.message.content).toBe('which one?');
    const { tasks } = await served.result<{ tasks: { status: { state: string } }[] }>('ListTasks', { tenant: 'asker' });
    expect(tasks.map(({ status }) => status.state)).not.toContain('TASK_STATE_INPUT_REQUIRED');
  });

  it('continues a conversation by responses, streams their events, and answers a question [OA.5]', async () => {
    const first = await client.responses.create({ model: 'asker', input: 'go' });
    expect([first.status, first.output_text]).toEqual(['completed', 'which one?']);
    const second = await client.responses.create({
      model: 'asker',
      input: [{ role: 'user', content: [{ type: 'input_text', text: 'that one' }] }],
      previous_response_id: first.id,
    });
    expect(second.output_text).toBe('ok: that one');
    expect(await client.responses.retrieve(second.id)).toMatchObject({
      status: 'completed',
      output_text: 'ok: that one',
    });
    const runner = client.responses.stream({ model: 'busy', input: 'go' });
    const types: string[] = [];
    for await (const event of runner) types.push(event.type);
    expect(types).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.reasoning_summary_part.added',
      'response.reasoning_summary_text.delta',
      'response.reasoning_summary_text.delta',
      'response.reasoning_summary_text.done',
      'response.reasoning_summary_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    expect((await runner.finalResponse()).output_text).toBe('one two');
    expect(await failure(client.responses.create({ model: 'broken', input: 'x' }))).toMatchObject({
      type: 'server_error',
    });
    expect(await failure(client.responses.create({ model: 'echo', input: 'x', background: true }))).toMatchObject({
      param: 'background',
    });
    expect(await failure(client.responses.retrieve('resp_nothing'))).toMatchObject({ status: 404 });
    const foreign = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: served.token('mallory') });
    expect(await failure(foreign.responses.retrieve(first.id))).toMatchObject({ status: 404 });
  });

  it('serves the agents of A2A unchanged [OA.1]', async () => {
    const { task } = await served.result('SendMessage', { ...said('x'), tenant: 'echo' });
    expect(task.status.state).toBe('TASK_STATE_COMPLETED');
  });
});
