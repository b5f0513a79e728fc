import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { PARTS_TEXT } from '../text/parts.js';

/** A button for an action that cannot be undone: it asks in its own place, and Escape or a lost focus takes it back. */
export function Confirm({
  label,
  question,
  disabled = false,
  act,
}: {
  label: string;
  question: string;
  disabled?: boolean;
  act: () => Promise<unknown>;
}) {
  const [state, setState] = useState<'idle' | 'asking' | 'busy'>('idle');
  const yes = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (state === 'asking') yes.current?.focus();
  }, [state]);
  if (state !== 'asking') {
    return (
      <button type="button" disabled={disabled || state === 'busy'} onClick={() => setState('asking')}>
        {label}
      </button>
    );
  }
  const run = async () => {
    setState('busy');
    await act();
    setState('idle');
  };
  return (
    <fieldset
      class="confirm"
      aria-label={question}
      onKeyDown={(event) => {
        if (event.key === 'Escape') setState('idle');
      }}
    >
      <span class="warn">{question}</span>
      <button ref={yes} type="button" class="main" onClick={() => void run()}>
        {PARTS_TEXT.yes(label)}
      </button>
      <button type="button" onClick={() => setState('idle')}>
        {PARTS_TEXT.no}
      </button>
    </fieldset>
  );
}
