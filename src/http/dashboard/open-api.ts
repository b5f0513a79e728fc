import { VERSION } from '../../runtime/package.js';
import type { PageOperation } from './facts.js';

const ERROR = {
  description: 'A typed error of the catalogue (docs/errors.md)',
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
};

const EVENTS = `Server-sent events. \`read\` names a read to follow, with its query, such as \`tasks?limit=20\`; it is sent as the
event \`read\` with \`{ key, value }\` or \`{ key, error }\` whenever it changes. \`message\` is a routed message, \`sampled\` says
that some were left out, \`reset\` that the reader must read \`/api/messages\`. A reader resumes with \`Last-Event-ID\`.`;

/** The description of the data API (OpenAPI 3.1). */
export function openApi(operations: readonly PageOperation[]): object {
  const query = (name: string, description: string) => ({ name, in: 'query', description, schema: { type: 'string' } });
  return {
    openapi: '3.1.0',
    info: { title: 'Ecliptic data API', version: VERSION },
    security: [{ bearer: [] }, { session: [], key: [] }],
    paths: {
      ...Object.fromEntries(operations.map((operation) => [`/api/${operation.name}`, pathOf(operation)])),
      '/api/session': {
        post: {
          operationId: 'session',
          summary: 'Exchanges the token of a link for the cookie and the key of a session',
          security: [],
          requestBody: { required: true, content: { 'application/json': { schema: objectWith('token') } } },
          responses: {
            200: { description: 'The key', content: { 'application/json': { schema: objectWith('key') } } },
            default: ERROR,
          },
        },
      },
      '/api/events': {
        get: {
          operationId: 'events',
          summary: 'The stream of events',
          description: EVENTS,
          parameters: [
            {
              ...query('read', 'A read to follow'),
              schema: { type: 'array', items: { type: 'string' } },
              explode: true,
            },
            query('agent', 'Only messages from or to this agent'),
            query('refused', 'With true, only refused messages'),
            { ...query('Last-Event-ID', 'The id of the last message that the reader has'), in: 'header' },
          ],
          responses: { 200: { description: 'The stream', content: { 'text/event-stream': {} } }, default: ERROR },
        },
      },
    },
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'The owner’s token; other tokens may use shared reads' },
        session: {
          ...{ type: 'apiKey', in: 'cookie', name: 'ecliptic-NODE' },
          description: 'The cookie of a page’s session; NODE is the beginning of the node’s key',
        },
        key: { type: 'apiKey', in: 'header', name: 'X-Ecliptic-Page', description: 'The key of the same session' },
      },
      schemas: {
        Error: {
          type: 'object',
          required: ['error'],
          properties: {
            error: {
              type: 'object',
              required: ['code', 'message'],
              properties: { code: { type: 'string' }, message: { type: 'string' } },
            },
          },
        },
      },
    },
  };
}

function objectWith(name: string): object {
  return { type: 'object', required: [name], properties: { [name]: { type: 'string' } } };
}

function pathOf({ name, kind, summary, shared, params }: PageOperation): object {
  const description = shared ? 'Other callers than the owner get what their sandbox may see.' : 'For the owner.';
  const about = {
    operationId: name,
    summary,
    description,
    responses: { 200: { description: 'The result', content: { 'application/json': {} } }, default: ERROR },
  };
  if (kind === 'action') {
    const requestBody = { required: true, content: { 'application/json': { schema: params } } };
    return { post: { ...about, requestBody } };
  }
  const parameters = Object.entries(params.properties ?? {}).map(([one, schema]) => ({
    name: one,
    in: 'query',
    required: params.required?.includes(one) ?? false,
    schema,
  }));
  return { get: { ...about, parameters } };
}
