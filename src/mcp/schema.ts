import { EclipticError } from '../runtime/errors.js';

/** The part of https://standardschema.dev that is needed: any library's schema that follows it is accepted. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    readonly jsonSchema?: {
      readonly input: (options: { target: 'draft-2020-12' }) => Record<string, unknown>;
      readonly output: (options: { target: 'draft-2020-12' }) => Record<string, unknown>;
    };
  };
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export type JsonSchema = Readonly<Record<string, unknown>>;

export type Schema<Output = unknown> = StandardSchema<Output> | JsonSchema;

export type OutputOf<S> = S extends StandardSchema<infer Output> ? Output : Record<string, unknown>;

/** The type of a value that passed the schema's check. A JSON Schema says nothing to the compiler. */
export type CheckedBy<S> = S extends StandardSchema<infer Output> ? Output : unknown;

/** The checked value, or its faults. */
export type Verdict = { readonly value: unknown } | { readonly faults: readonly string[] };

/** A schema as JSON, for lists, and as a check. */
export interface Shape {
  /** Undefined where the library cannot express it as JSON Schema. */
  readonly json: JsonSchema | undefined;
  check(value: unknown): Verdict | Promise<Verdict>;
}

export function readSchema(schema: Schema, direction: 'input' | 'output', what: string): Shape {
  const check = readCheck(schema, what);
  return { json: isStandard(schema) ? jsonOf(schema, direction, what) : schema, check };
}

/** The check alone, of a schema that need not be expressible as JSON. */
export function readCheck(schema: Schema, what: string): Shape['check'] {
  if (isStandard(schema)) return (value) => then(schema['~standard'].validate(value), judge);
  if (typeof schema !== 'object' || schema === null) throw unusable(what, 'it is no schema');
  return jsonCheck(schema, what);
}

function jsonOf(schema: StandardSchema, direction: 'input' | 'output', what: string): JsonSchema | undefined {
  try {
    return schema['~standard'].jsonSchema?.[direction]({ target: 'draft-2020-12' });
  } catch (error) {
    throw unusable(what, (error as Error).message);
  }
}

/** Schemas of some libraries are functions. */
function isStandard(schema: unknown): schema is StandardSchema {
  const holder = (typeof schema === 'object' && schema !== null) || typeof schema === 'function';
  // A JSON Schema of another node may have a member of that name.
  return holder && typeof (schema as Partial<StandardSchema>)['~standard']?.validate === 'function';
}

function judge(result: StandardResult<unknown>): Verdict {
  if (!result.issues) return { value: result.value };
  return {
    faults: result.issues.map(({ path, message }) => {
      const place = path?.map((step) => String(typeof step === 'object' ? step.key : step)).join('.');
      return place ? `${place}: ${message}` : message;
    }),
  };
}

function then<T, R>(value: T | Promise<T>, map: (value: T) => R): R | Promise<R> {
  return value instanceof Promise ? value.then(map) : map(value);
}

/** Compiled on first use: most tools of a large catalogue are never called. */
function jsonCheck(schema: JsonSchema, what: string): Shape['check'] {
  let check: ((value: unknown) => Verdict) | undefined;
  return (value) => {
    if (check) return check(value);
    return compile(schema, what).then((compiled) => {
      check = compiled;
      return compiled(value);
    });
  };
}

type Validators = typeof import('@modelcontextprotocol/server/validators/ajv');
let loading: Promise<Validators> | undefined;

async function compile(schema: JsonSchema, what: string): Promise<(value: unknown) => Verdict> {
  loading ??= import('@modelcontextprotocol/server/validators/ajv');
  const { AjvJsonSchemaValidator } = await loading;
  try {
    const validate = new AjvJsonSchemaValidator().getValidator(schema);
    return (value) => {
      const result = validate(value);
      return result.valid ? { value } : { faults: [result.errorMessage] };
    };
  } catch (error) {
    throw unusable(what, (error as Error).message);
  }
}

function unusable(what: string, reason: string): EclipticError {
  return new EclipticError('INVALID_TOOL', `the schema of ${what} cannot be used: ${reason}`, { reason });
}
