import type { PeerRow } from '../../src/network/peers/network.js';
import { href } from '../route.js';
import { now, tell } from '../store.js';
import { node, readOf } from '../stream.js';
import { STATE_MARKS, span, TEXT } from '../text.js';

const SHORT_CHARS = 8;

/** An id, shortened: a link to its story, and a button that copies the whole. */
export function Id({ id }: { id: string }) {
  const copy = async () => {
    await navigator.clipboard.writeText(id);
    tell(TEXT.copied(id));
  };
  return (
    <span class="id mono nowrap">
      <a href={href('story', id)} title={id}>
        {id.length > SHORT_CHARS + 1 ? `${id.slice(0, SHORT_CHARS)}…` : id}
      </a>
      <button type="button" class="copy" title={TEXT.copy(id)} aria-label={TEXT.copy(id)} onClick={() => void copy()}>
        <span class="copy-icon" aria-hidden="true" />
      </button>
    </span>
  );
}

/** A relative time, with the exact one on hover. */
export function Ago({ at }: { at: number | null | undefined }) {
  if (at === null || at === undefined) return <span class="dim">-</span>;
  const date = new Date(at);
  return (
    <time class="nowrap" dateTime={date.toISOString()} title={date.toLocaleString()}>
      {at > now.value ? TEXT.ahead(span(at - now.value)) : TEXT.ago(span(now.value - at))}
    </time>
  );
}

/** The time of day, for lists of events. */
export function Clock({ at }: { at: number }) {
  const date = new Date(at);
  return (
    <time class="dim mono nowrap" dateTime={date.toISOString()} title={date.toLocaleString()}>
      {date.toLocaleTimeString([], { hour12: false })}
    </time>
  );
}

/** A state as shape, colour and word. */
export function State({ state }: { state: string }) {
  const [mark, tone] = STATE_MARKS[state.toLowerCase()] ?? ['○', 'dim'];
  return (
    <span class={`nowrap ${tone}`}>
      <span aria-hidden="true">{mark}</span> {state}
    </span>
  );
}

/** An agent, with the key of its node cut, as a link to it. */
export function AgentName({ address }: { address: string }) {
  return (
    <a class="mono" href={href('agents', ownAddress(address))} title={address}>
      {shortAddress(address)}
    </a>
  );
}

/** What people call a node, where this node knows it and no other has the same name; otherwise its key, cut. */
export function deviceName(key: string): string {
  const devices = [...(readOf<readonly PeerRow[]>('peers').value.value ?? []), ...(node.value ? [node.value] : [])];
  const name = devices.find((one) => one.node === key)?.name;
  const isClear = name && devices.every((one) => one.name !== name || one.node === key);
  return isClear ? name : key.slice(0, SHORT_CHARS);
}

/** An address with the name of its node, or its key cut; an agent of this node has its name alone. */
export function shortAddress(address: string): string {
  return ownAddress(address).replace(/@([0-9a-f]{9,64})$/, (_, key: string) => `@${deviceName(key)}`);
}

/** An agent of this node is known by its id alone. */
export function ownAddress(address: string): string {
  const own = node.value && `@${node.value.node}`;
  return own && address.endsWith(own) ? address.slice(0, -own.length) : address;
}

/** Any value, as folded JSON text. */
export function Json({ value, open = false, label }: { value: unknown; open?: boolean; label: string }) {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
  return (
    <details open={open}>
      <summary>{label}</summary>
      <pre class="json">{text}</pre>
    </details>
  );
}
