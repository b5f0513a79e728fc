import { TOOLS_TEXT } from '../text/tools.js';
import { Choice, Field, readJson } from './form.js';

/** The part of JSON Schema that forms are made from; anything else is entered as JSON. */
interface Schema {
  readonly type?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly title?: unknown;
  readonly description?: unknown;
}

export interface ObjectSchema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

type Kind = 'text' | 'number' | 'integer' | 'boolean' | 'enum' | 'json';

/** The texts of the fields, by the name of the argument. */
export type Entered = Readonly<Record<string, string>>;

/** The fields of an object's schema. */
export function SchemaFields({
  schema,
  entered,
  errors,
  change,
}: {
  schema: ObjectSchema;
  entered: Entered;
  errors: Entered;
  change: (entered: Entered) => void;
}) {
  const fields = Object.entries(schema.properties ?? {});
  const first = fields.map(([name]) => name).find((name) => Object.hasOwn(errors, name));
  if (fields.length === 0) return <p class="dim">{TOOLS_TEXT.noArguments}</p>;
  return (
    <>
      {fields.map(([name, one]) => {
        const isRequired = schema.required?.includes(name) === true;
        const kind = kindOf(one);
        const hints = [
          ...(typeof one.description === 'string' ? [one.description] : []),
          ...(kind === 'json' ? [TOOLS_TEXT.jsonHint] : []),
        ];
        return (
          <Field
            key={name}
            label={isRequired ? `${name} (${TOOLS_TEXT.required})` : name}
            hint={hints.join(' · ') || undefined}
            error={Object.hasOwn(errors, name) ? errors[name] : undefined}
            focusFor={name === first ? errors : undefined}
          >
            <Control
              kind={kind}
              schema={one}
              isRequired={isRequired}
              value={Object.hasOwn(entered, name) ? entered[name]! : initialOf(one, isRequired)}
              change={(value) => change({ ...entered, [name]: value })}
            />
          </Field>
        );
      })}
    </>
  );
}

function Control({
  kind,
  schema,
  isRequired,
  value,
  change,
  'aria-describedby': describedBy,
}: {
  kind: Kind;
  schema: Schema;
  isRequired: boolean;
  value: string;
  change: (value: string) => void;
  'aria-describedby'?: string;
}) {
  const about = describedBy === undefined ? {} : { 'aria-describedby': describedBy };
  const unset = isRequired ? [] : [['', TOOLS_TEXT.unset] as const];
  if (kind === 'enum') {
    const options = (schema.enum ?? [schema.const]).map((one) => [JSON.stringify(one), String(one)] as const);
    return <Choice {...about} value={value} options={[...unset, ...options]} change={change} />;
  }
  if (kind === 'boolean') {
    const options = [['true', TOOLS_TEXT.yes] as const, ['false', TOOLS_TEXT.no] as const];
    return <Choice {...about} value={value} options={[...unset, ...options]} change={change} />;
  }
  if (kind === 'json') {
    return (
      <textarea {...about} rows={3} class="mono" value={value} onInput={(event) => change(event.currentTarget.value)} />
    );
  }
  if (kind === 'text') {
    return <textarea {...about} rows={1} value={value} onInput={(event) => change(event.currentTarget.value)} />;
  }
  return (
    <input
      {...about}
      class="mono"
      inputMode="decimal"
      value={value}
      onInput={(event) => change(event.currentTarget.value)}
    />
  );
}

function kindOf({ type, enum: values, const: fixed }: Schema): Kind {
  if (Array.isArray(values) || fixed !== undefined) return 'enum';
  if (type === 'string') return 'text';
  return type === 'number' || type === 'integer' || type === 'boolean' ? type : 'json';
}

/** A choice has no empty state where a value is required. */
function initialOf(schema: Schema, isRequired: boolean): string {
  const kind = kindOf(schema);
  const { default: usual } = schema;
  if (usual !== undefined) return kind === 'text' ? String(usual) : JSON.stringify(usual);
  if (!isRequired) return '';
  if (kind === 'boolean') return 'false';
  return kind === 'enum' ? JSON.stringify((schema.enum ?? [schema.const])[0]) : '';
}

/** The arguments as JSON, or what is wrong with them. An optional field that is empty is left out. */
export function argumentsOf(
  schema: ObjectSchema,
  entered: Entered,
): { readonly value: Record<string, unknown> } | { readonly errors: Entered } {
  const value: Record<string, unknown> = {};
  const errors: Record<string, string> = {};
  for (const [name, one] of Object.entries(schema.properties ?? {})) {
    const isRequired = schema.required?.includes(name) === true;
    const text = Object.hasOwn(entered, name) ? entered[name]! : initialOf(one, isRequired);
    const kind = kindOf(one);
    if (text === '' && !(isRequired && kind === 'text')) {
      if (isRequired) errors[name] = TOOLS_TEXT.mustBe(TOOLS_TEXT.given);
      continue;
    }
    const read = kind === 'text' ? { value: text } : parsedAs(kind, text);
    if ('error' in read) errors[name] = read.error;
    else value[name] = read.value;
  }
  return Object.keys(errors).length > 0 ? { errors } : { value };
}

function parsedAs(kind: Kind, text: string): { readonly value: unknown } | { readonly error: string } {
  if (kind === 'number' || kind === 'integer') {
    const number = text.trim() === '' ? Number.NaN : Number(text);
    const fits = kind === 'integer' ? Number.isSafeInteger(number) : Number.isFinite(number);
    const what = kind === 'integer' ? TOOLS_TEXT.whole : TOOLS_TEXT.number;
    return fits ? { value: number } : { error: TOOLS_TEXT.mustBe(what) };
  }
  const parsed = readJson(text);
  return 'error' in parsed ? { error: TOOLS_TEXT.notJson(parsed.error) } : parsed;
}
