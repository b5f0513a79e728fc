import type { JsonSchema } from './json-schema.js';

const texts = { type: 'object', additionalProperties: { type: 'string' } } as const;

const PACKAGE: JsonSchema = {
  type: 'object',
  properties: {
    name: {
      type: 'string',
      minLength: 1,
      maxLength: 214,
      pattern: '^(@[a-z0-9~_.-]+/)?[A-Za-z0-9~_][A-Za-z0-9~_.-]*$',
    },
    version: { type: 'string', pattern: '^v?\\d+\\.\\d+\\.\\d+([-+][0-9A-Za-z.+-]+)?$' },
    description: { type: 'string' },
    private: { type: ['boolean', 'string'] },
    type: { enum: ['module', 'commonjs'] },
    main: { anyOf: [{ type: 'string' }, { const: false }] },
    types: { type: 'string' },
    bin: { anyOf: [{ type: 'string' }, texts] },
    files: { type: 'array', items: { type: 'string' } },
    scripts: texts,
    dependencies: texts,
    devDependencies: texts,
    peerDependencies: texts,
    optionalDependencies: texts,
  },
};

const WORKFLOW: JsonSchema = {
  type: 'object',
  required: ['on', 'jobs'],
  properties: {
    jobs: {
      type: 'object',
      minProperties: 1,
      additionalProperties: {
        type: 'object',
        anyOf: [{ required: ['runs-on'] }, { required: ['uses'] }],
        properties: {
          steps: {
            type: 'array',
            items: { type: 'object', anyOf: [{ required: ['run'] }, { required: ['uses'] }] },
          },
        },
      },
    },
  },
};

/** Schemas of files that most repositories have: what their readers refuse or ignore silently, and nothing of taste. */
export const BUILT_IN_SCHEMAS: readonly {
  readonly files: RegExp;
  readonly schema: JsonSchema;
  readonly name: string;
}[] = [
  { files: /(^|\/)package\.json$/, schema: PACKAGE, name: 'what npm takes as a package.json' },
  { files: /^\.github\/workflows\/[^/]+\.ya?ml$/, schema: WORKFLOW, name: 'what GitHub takes as a workflow' },
];
