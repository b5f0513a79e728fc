import { type ComponentChildren, cloneElement, type VNode } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

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
  focusFor,
  children,
}: {
  label: string;
  /** Beside its control instead of above it. */
  inline?: boolean;
  hint?: string | undefined;
  error?: string | undefined;
  /** Takes the focus whenever this becomes another object. */
  focusFor?: object | undefined;
  /** The control. */
  children: VNode<{ 'aria-describedby'?: string }>;
}) {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (focusFor) box.current?.querySelector<HTMLElement>('input, textarea, select')?.focus();
  }, [focusFor]);
  const isDescribed = hint !== undefined || error !== undefined;
  return (
    <div ref={box} class={inline ? 'field is-inline' : 'field'}>
      {/* biome-ignore lint/a11y/noLabelWithoutControl: the control is the child */}
      <label>
        <span class="dim">{label}</span>
        {isDescribed ? cloneElement(children, { 'aria-describedby': id }) : children}
      </label>
      {isDescribed && (
        <span id={id} class="hint">
          {hint !== undefined && <span class="dim">{hint}</span>}
          {error !== undefined && (
            <span class="bad block" role="alert">
              {error}
            </span>
          )}
        </span>
      )}
    </div>
  );
}

/** One of a few names. */
export function Choice({
  value,
  options,
  change,
  'aria-describedby': describedBy,
}: {
  value: string;
  options: readonly (readonly [value: string, text: string])[];
  change: (value: string) => void;
  'aria-describedby'?: string;
}) {
  return (
    <select value={value} aria-describedby={describedBy} onChange={(event) => change(event.currentTarget.value)}>
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
