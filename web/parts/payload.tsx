import { PARTS_TEXT } from '../text/parts.js';
import { Json } from './facts.js';

/** A payload: a text as text, anything else as JSON. It is never taken for markup. */
export function Payload({ value, open = true }: { value: unknown; open?: boolean }) {
  if (value === undefined || value === null) return <p class="dim">{PARTS_TEXT.noPayload}</p>;
  const { text, ...rest } = typeof value === 'object' ? withText(value) : { text: value };
  if (typeof text === 'string') {
    return (
      <>
        <p class="said">{text}</p>
        {Object.keys(rest).length > 0 && <Json value={rest} label={PARTS_TEXT.fields} />}
      </>
    );
  }
  return <Json value={value} open={open} label={PARTS_TEXT.json} />;
}

/** A proposal's text is its task. */
function withText(value: object): { text?: unknown } {
  if (!('taskDescription' in value)) return value;
  const { taskDescription, ...rest } = value;
  return { ...rest, text: taskDescription };
}
