import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '../../../src/index.js';

/** The tools, resources and prompts that the conformance suite expects of a server. */

type Json = Record<string, unknown>;
type Call = Parameters<Parameters<Agent['tool']>[2]>[1];
type InputRequest = Parameters<Call['ask']>[0][string];
type Form = Extract<InputRequest, { method: 'elicitation/create' }>;
type Fields = Extract<Form['params'], { requestedSchema: unknown }>['requestedSchema']['properties'];

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==';
const IMAGE = { type: 'image', data: PIXEL, mimeType: 'image/png' } as const;

const SCHEMA_2020_12 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

export function setup(agent: Agent): void {
  offerContents(agent);
  offerReports(agent);
  offerOneQuestion(agent);
  offerQuestions(agent);
  offerChanges(agent);
  offerTasks(agent);
  offerResources(agent);
  offerPrompts(agent);
}

/** Tools that return one thing or another. */
function offerContents(agent: Agent): void {
  // The suite calls the first tool of the list without arguments.
  agent.tool('answer', { description: 'Answers at once' }, () => '42');
  const returning = (name: string, ...content: unknown[]) =>
    agent.tool(name, { description: `Returns ${name.slice('test_'.length).replaceAll('_', ' ')}` }, () => ({
      content,
    }));

  agent.tool(
    'test_simple_text',
    { description: 'Returns a text' },
    () => 'This is a simple text response for testing.',
  );
  returning('test_image_content', IMAGE);
  returning('test_audio_content', { type: 'audio', data: SILENCE, mimeType: 'audio/wav' });
  returning('test_embedded_resource', {
    type: 'resource',
    resource: {
      uri: 'test://embedded-resource',
      mimeType: 'text/plain',
      text: 'This is an embedded resource content.',
    },
  });
  returning('test_multiple_content_types', { type: 'text', text: 'Multiple content types test:' }, IMAGE, {
    type: 'resource',
    resource: {
      uri: 'test://mixed-content-resource',
      mimeType: 'application/json',
      text: JSON.stringify({ test: 'data', value: 123 }),
    },
  });
  agent.tool('test_error_handling', { description: 'Always fails' }, () => {
    throw new Error('This tool intentionally returns an error for testing');
  });
  agent.tool(
    'json_schema_2020_12_tool',
    { description: 'Has a schema of many keywords', inputSchema: SCHEMA_2020_12 },
    (args) => args,
  );
  const region = { type: 'string', description: 'Where', 'x-mcp-header': 'Region' };
  agent.tool(
    'test_x_mcp_header',
    {
      description: 'Wants an argument in a header too',
      inputSchema: { type: 'object', properties: { region }, required: ['region'] },
    },
    (args) => `Region: ${args.region}`,
  );
}

/** Tools that tell something before they return. */
function offerReports(agent: Agent): void {
  agent.tool('test_tool_with_logging', { description: 'Logs while it runs' }, async (_, call) => {
    call.log('info', 'Tool execution started');
    await delay(50);
    call.log('info', 'Tool processing data');
    await delay(50);
    call.log('info', 'Tool execution completed');
    return 'Tool with logging executed successfully';
  });
  agent.tool('test_logging_tool', { description: 'Logs once' }, (_, call) => {
    call.log('info', 'a log entry');
    return 'logged';
  });
  agent.tool('test_tool_with_progress', { description: 'Tells how far it is' }, async (_, call) => {
    call.progress(0, 100);
    await delay(50);
    call.progress(50, 100);
    await delay(50);
    call.progress(100, 100);
    return 'Tool with progress executed successfully';
  });
}

/** Tools that ask the caller one thing, and return its answer. */
function offerOneQuestion(agent: Agent): void {
  const asking = (
    name: string,
    request: (args: Json) => InputRequest,
    tell: (answer: Json) => string,
    inputSchema: Json = { type: 'object' },
  ) =>
    agent.tool(name, { description: 'Asks the caller', inputSchema }, (args, call) => {
      const answer = call.answers.answer as Json | undefined;
      return answer ? tell(answer) : call.ask({ answer: request(args) });
    });
  const elicited = ({ action, content }: Json) =>
    `Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`;

  asking(
    'test_sampling',
    (args) => sampling(String(args.prompt), 100),
    (answer) => `LLM response: ${spoken(answer)}`,
    { type: 'object', properties: { prompt: { type: 'string' } }, required: ['prompt'] },
  );
  asking(
    'test_elicitation',
    (args) =>
      form(String(args.message), {
        username: { type: 'string', description: "User's response" },
        email: { type: 'string', description: "User's email address" },
      }),
    ({ action, content }) => `User response: <action: ${action}, content: ${JSON.stringify(content ?? {})}>`,
    { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  );
  asking(
    'test_elicitation_sep1034_defaults',
    () =>
      form('Please review these values', {
        name: { type: 'string', default: 'John Doe' },
        age: { type: 'integer', default: 30 },
        score: { type: 'number', default: 95.5 },
        status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
        verified: { type: 'boolean', default: true },
      }),
    elicited,
  );
  const options = ['option1', 'option2', 'option3'];
  const titled = (word: string) => [
    { const: 'value1', title: `First ${word}` },
    { const: 'value2', title: `Second ${word}` },
    { const: 'value3', title: `Third ${word}` },
  ];
  asking(
    'test_elicitation_sep1330_enums',
    () =>
      form('Please choose', {
        untitledSingle: { type: 'string', enum: options },
        titledSingle: { type: 'string', oneOf: titled('Option') },
        legacyEnum: {
          type: 'string',
          enum: ['opt1', 'opt2', 'opt3'],
          enumNames: ['Option One', 'Option Two', 'Option Three'],
        },
        untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
        titledMulti: { type: 'array', items: { anyOf: titled('Choice') } },
      }),
    elicited,
  );
  asking('test_missing_capability', () => sampling('Anything', 10), spoken);
  asking('test_streaming_elicitation', () => form('Go on?', { ok: { type: 'boolean' } }), elicited);
}

/** Tools that ask under given names, ask several things, or remember something between the rounds. */
function offerQuestions(agent: Agent): void {
  const asksName = () => form('What is your name?', { name: { type: 'string' } });
  const asksRoots = () => ({ method: 'roots/list' as const, params: {} });
  const asksConsent = () => form('Please confirm', { ok: { type: 'boolean' } });

  agent.tool('test_input_required_result_elicitation', { description: 'Asks for a name' }, (_, call) => {
    const name = field(call.answers.user_name, 'name');
    return name === undefined ? call.ask({ user_name: asksName() }) : `Hello, ${name}!`;
  });
  agent.tool('test_input_required_result_sampling', { description: 'Asks a model' }, (_, call) => {
    const answer = call.answers.capital_question as Json | undefined;
    return answer ? spoken(answer) : call.ask({ capital_question: sampling('What is the capital of France?', 100) });
  });
  agent.tool('test_input_required_result_list_roots', { description: 'Asks for roots' }, (_, call) => {
    const answer = call.answers.client_roots as Json | undefined;
    return answer ? `Roots: ${JSON.stringify(answer.roots)}` : call.ask({ client_roots: asksRoots() });
  });
  agent.tool('test_input_required_result_request_state', { description: 'Remembers a state' }, (_, call) => {
    if (call.state === 'confirming' && call.answers.confirm) return 'state-ok';
    return call.ask({ confirm: asksConsent() }, 'confirming');
  });
  agent.tool('test_input_required_result_tampered_state', { description: 'Trusts its own state only' }, (_, call) =>
    call.state === 'sealed' ? 'state-ok' : call.ask({ confirm: asksConsent() }, 'sealed'),
  );
  agent.tool('test_input_required_result_multiple_inputs', { description: 'Asks three things' }, (_, call) => {
    const { user_name, greeting, client_roots } = call.answers;
    if (user_name && greeting && client_roots) {
      return `${spoken(greeting as Json)} ${field(user_name, 'name')}: ${JSON.stringify(client_roots)}`;
    }
    const requests = {
      user_name: asksName(),
      greeting: sampling('Generate a greeting', 50),
      client_roots: asksRoots(),
    };
    return call.ask(requests, 'asked');
  });
  agent.tool('test_input_required_result_multi_round', { description: 'Asks twice' }, (_, call) => {
    const { name } = (call.state ?? {}) as { name?: string };
    const answered = field(call.answers.step1, 'name');
    const color = field(call.answers.step2, 'color');
    if (name !== undefined && color !== undefined) return `${name} likes ${color}`;
    if (answered === undefined) return call.ask({ step1: form('Step 1: What is your name?', NAME) }, {});
    const color2 = form('Step 2: What is your favorite color?', { color: { type: 'string' } });
    return call.ask({ step2: color2 }, { name: answered });
  });
  agent.tool('test_input_required_result_capabilities', { description: 'Asks what can be answered' }, (_, call) => {
    const { sampling: canSample, elicitation } = call.capabilities;
    const requests: Record<string, InputRequest> = {
      ...(canSample && { sample: sampling('Anything', 10) }),
      ...(elicitation && { elicit: asksName() }),
    };
    const some = Object.keys(requests).length > 0 && Object.keys(call.answers).length === 0;
    return some ? call.ask(requests) : 'done';
  });
}

/** Tools that change the offers of this agent. */
function offerChanges(agent: Agent): void {
  let tool = false;
  agent.tool('test_trigger_tool_change', { description: 'Adds a tool, or removes it' }, () => {
    if (tool) agent.withdraw('tool', 'test_added_tool');
    else agent.tool('test_added_tool', { description: 'Comes and goes' }, () => 'here');
    tool = !tool;
    return 'changed';
  });
  let prompt = false;
  agent.tool('test_trigger_prompt_change', { description: 'Adds a prompt, or removes it' }, () => {
    if (prompt) agent.withdraw('prompt', 'test_added_prompt');
    else agent.prompt({ name: 'test_added_prompt', description: 'Comes and goes', template: 'here' });
    prompt = !prompt;
    return 'changed';
  });
  agent.tool('test_trigger_resource_update', { description: 'Says that the watched resource has changed' }, () => {
    agent.resourceUpdated('test://watched-resource');
    return 'changed';
  });
}

/** Tools that are called as tasks. */
function offerTasks(agent: Agent): void {
  const confirm = { confirm: { type: 'boolean' } } as const;
  const naming = { type: 'object', properties: { name: { type: 'string' } } };
  agent.tool('greet', { description: 'Greets at once', inputSchema: naming }, ({ name }) => `Hello, ${name}!`);
  agent.tool('slow_compute', { description: 'Takes its time', tasks: 'optional' }, async (args, call) => {
    const { seconds } = args as { seconds: number };
    await delay(seconds * 1_000, undefined, { signal: call.signal });
    return `computed for ${seconds} s`;
  });
  agent.tool('failing_job', { description: 'Fails after a while', tasks: 'required' }, async () => {
    await delay(1_000);
    throw new Error('This job fails');
  });
  agent.tool('protocol_error_job', { description: 'Returns what is no result', tasks: 'required' }, () => {
    const circle: Json = {};
    circle.circle = circle;
    return circle;
  });
  agent.tool('confirm_delete', { description: 'Asks as a task', tasks: 'required' }, (_, { answers, ask }) => {
    const answer = answers.sure as Json | undefined;
    return answer ? `deleted: ${JSON.stringify(answer.content)}` : ask({ sure: form('Delete the file?', confirm) });
  });
  agent.tool('multi_input', { description: 'Asks two things as a task', tasks: 'required' }, (_, { answers, ask }) => {
    const { first, second } = answers;
    if (first && second) return 'both are answered';
    return ask({ first: form('First', confirm), second: form('Second', confirm) });
  });
  const asksFirst = { description: 'Asks, and begins a task then', tasks: 'required', asksFirst: true } as const;
  agent.tool('test_tool_with_task', asksFirst, (_, { answers, ask }) => {
    const name = field(answers.user_name, 'name');
    return name === undefined ? ask({ user_name: form('What is your name?', NAME) }) : `Hello, ${name}!`;
  });
}

function offerResources(agent: Agent): void {
  const plain = { description: 'For testing', mimeType: 'text/plain' };
  agent.resource(
    { uri: 'test://static-text', name: 'Static text', ...plain },
    () => 'This is the content of the static text resource.',
  );
  agent.resource(
    { uri: 'test://static-binary', name: 'Static binary', description: 'For testing', mimeType: 'image/png' },
    () => Buffer.from(PIXEL, 'base64'),
  );
  agent.resource({ uri: 'test://watched-resource', name: 'Watched', ...plain }, () => 'Watched resource content');
  agent.resource(
    {
      uriTemplate: 'test://template/{id}/data',
      name: 'Template',
      description: 'For testing',
      mimeType: 'application/json',
    },
    (_, { id }) => ({ id, templateTest: true, data: `Data for ID: ${id}` }),
  );
}

function offerPrompts(agent: Agent): void {
  const needed = (name: string) => ({ name, description: 'For testing', required: true });
  const user = (content: Json) => ({ role: 'user', content });
  const says = (text: string) => user({ type: 'text', text });

  agent.prompt({
    name: 'test_simple_prompt',
    description: 'Without arguments',
    template: 'This is a simple prompt for testing.',
  });
  agent.prompt({
    name: 'test_prompt_with_arguments',
    description: 'With two arguments',
    arguments: [needed('arg1'), needed('arg2')],
    complete: { arg1: (value) => ['paris', 'park', 'party'].filter((word) => word.startsWith(value)) },
    template: "Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'",
  });
  agent.prompt(
    {
      name: 'test_prompt_with_embedded_resource',
      description: 'Holds a resource',
      arguments: [needed('resourceUri')],
    },
    ({ resourceUri: uri }) => {
      const text = 'Embedded resource content for testing.';
      const resource = user({ type: 'resource', resource: { uri, mimeType: 'text/plain', text } });
      return [resource, says('Please process the embedded resource above.')];
    },
  );
  agent.prompt({ name: 'test_prompt_with_image', description: 'Holds an image' }, () => [
    user(IMAGE),
    says('Please analyze the image above.'),
  ]);
  agent.prompt({ name: 'test_input_required_result_prompt', description: 'Asks first' }, (_, call) => {
    const context = field(call.answers.user_context, 'context');
    if (context !== undefined) return `Context: ${context}`;
    return call.ask({ user_context: form('What context should the prompt use?', { context: { type: 'string' } }) });
  });
}

const NAME = { name: { type: 'string' } } as const;

/** A form whose every field must be filled in. */
function form(message: string, properties: Fields): InputRequest {
  const requestedSchema = { type: 'object' as const, properties, required: Object.keys(properties) };
  return { method: 'elicitation/create' as const, params: { message, requestedSchema } };
}

function sampling(text: string, maxTokens: number): InputRequest {
  const messages = [{ role: 'user' as const, content: { type: 'text' as const, text } }];
  return { method: 'sampling/createMessage' as const, params: { messages, maxTokens } };
}

/** The text of a model. */
function spoken(answer: Json): string {
  return String((answer.content as { text?: unknown } | undefined)?.text);
}

/** A field of a form that was filled in. */
function field(answer: unknown, name: string): string | undefined {
  const { action, content } = (answer ?? {}) as { action?: unknown; content?: Json };
  const value = action === 'accept' ? content?.[name] : undefined;
  return typeof value === 'string' ? value : undefined;
}
