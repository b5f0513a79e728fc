import {
  closed,
  connection,
  isStale,
  lastHeard,
  narrow,
  node,
  notice,
  now,
  type View,
  view,
  waiting,
} from './store.js';
import { span, TEXT } from './text.js';
import { Agents } from './views/agents.js';
import { Messages } from './views/messages.js';
import { Needs } from './views/needs.js';

/** On a narrow screen the list of what waits is a view; on a wide one it is always beside the view. */
const NARROW: readonly View[] = ['needs', 'agents', 'messages'];
const WIDE: readonly View[] = ['agents', 'messages'];

/** The frame: places on the left, the view, and what waits for the owner on the right. */
export function Shell() {
  if (closed.value !== undefined) return <Closed why={closed.value} />;
  const views = narrow.value ? NARROW : WIDE;
  const place = views.includes(view.value) ? view.value : 'agents';
  return (
    <div class={isStale.value ? 'page is-stale' : 'page'}>
      <a class="skip" href="#view">
        {TEXT.skip}
      </a>
      <header>
        <h1>
          {TEXT.product}
          {node.value && (
            <span class="dim" title={node.value.node}>
              {' '}
              · {node.value.name || node.value.node.slice(0, 8)}
            </span>
          )}
        </h1>
        <Connection />
      </header>
      <nav aria-label={TEXT.viewsLabel}>
        {views.map((one) => (
          <button
            key={one}
            type="button"
            aria-current={place === one ? 'page' : undefined}
            onClick={() => {
              view.value = one;
            }}
          >
            {TEXT.views[one]}
            {one === 'needs' && <Count />}
          </button>
        ))}
      </nav>
      {place !== 'needs' && (
        <main id="view" tabIndex={-1}>
          <h2>{TEXT.views[place]}</h2>
          {place === 'messages' ? <Messages /> : <Agents />}
        </main>
      )}
      {(!narrow.value || place === 'needs') && (
        <aside id={place === 'needs' ? 'view' : undefined} aria-label={TEXT.needs.label}>
          <h2>
            {TEXT.views.needs}
            <Count />
          </h2>
          <Needs />
        </aside>
      )}
      <p class="notice" role="status">
        {notice.value}
      </p>
    </div>
  );
}

function Count() {
  const count = waiting.value?.length ?? 0;
  return count === 0 ? null : <span class="count">{count}</span>;
}

function Connection() {
  const state = connection.value;
  if (state === 'live') {
    return (
      <p class="connection good">
        <span aria-hidden="true">●</span> {TEXT.live}
      </p>
    );
  }
  if (state === 'connecting') {
    return (
      <p class="connection dim">
        <span aria-hidden="true">◌</span> {TEXT.connecting}
      </p>
    );
  }
  const heard = lastHeard.value;
  return (
    <p class="connection warn" role="alert" title={TEXT.reconnect}>
      <span aria-hidden="true">◌</span> {TEXT.stale}
      {/* Counts on, so a screen reader would repeat it every second. */}
      <span aria-hidden="true">
        : {heard === undefined ? TEXT.staleAtAll : TEXT.staleSince(span(now.value - heard))}
      </span>
    </p>
  );
}

function Closed({ why }: { why: 'used' | 'ended' }) {
  return (
    <main class="closed">
      <h1>{TEXT.closed.title}</h1>
      <p>{TEXT.closed[why]}</p>
      <p>{TEXT.closed.how}</p>
      <pre>{TEXT.closed.command}</pre>
    </main>
  );
}
