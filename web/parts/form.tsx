import type { ComponentChildren } from 'preact';

/** A form that asks the node, never the browser, to do something. */
export function Form({
  label,
  busy,
  submit,
  button,
  children,
  more,
}: {
  label: string;
  busy: boolean;
  submit: () => void;
  button: string;
  children: ComponentChildren;
  /** Further buttons. */
  more?: ComponentChildren;
}) {
  return (
    <form
      class="form"
      aria-label={label}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit();
      }}
    >
      {children}
      <p class="actions">
        <button type="submit" class="main" disabled={busy}>
          {button}
        </button>
        {more}
      </p>
    </form>
  );
}

export function Field({
  label,
  inline = false,
  hint,
  error,
  children,
}: {
  label: string;
  /** Beside its control instead of above it. */
  inline?: boolean;
  hint?: string | undefined;
  error?: string | undefined;
  children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child
    <label class={inline ? 'field is-inline' : 'field'}>
      <span class="dim">{label}</span>
      {children}
      {hint !== undefined && <span class="hint dim">{hint}</span>}
      {error !== undefined && (
        <span class="hint bad" role="alert">
          {error}
        </span>
      )}
    </label>
  );
}

/** One of a few names. */
export function Choice({
  value,
  options,
  change,
}: {
  value: string;
  options: readonly (readonly [value: string, text: string])[];
  change: (value: string) => void;
}) {
  return (
    <select value={value} onChange={(event) => change(event.currentTarget.value)}>
      {options.map(([one, text]) => (
        <option key={one} value={one}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** A JSON text as a value; a text that is not JSON is refused with the reason. */
export function readJson(text: string): { readonly value: unknown } | { readonly error: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

/** JSON where the text is JSON, the text itself otherwise. */
export function jsonOrText(text: string): unknown {
  const parsed = readJson(text);
  return 'value' in parsed ? parsed.value : text;
}
