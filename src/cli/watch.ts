import type { TailEvent } from '../node/control/api.js';
import type { ControlClient } from '../node/control/client.js';
import type { AgentRow } from '../node/control/rows.js';
import { wait } from '../runtime/async.js';
import { EclipticError } from '../runtime/errors.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Invocation } from './command.js';
import { LiveArea } from './live-area.js';
import { clockText, messageLine } from './message-line.js';
import { type Output, oneLine } from './output.js';
import { aboutItem, agentLine, answerLine, screenRows, type WatchView } from './watch-screen.js';

const EVERY_MS = 1_000;
/** Between two redraws for messages alone. */
const DRAW_MS = 250;
/** Lines that a screen could show. */
const KEPT = 200;
const DEFAULT_ROWS = 24;
const BELL = '\u0007';

type Snapshot = Omit<WatchView, 'refused' | 'messages'>;

/** The first screen of the dashboard in a terminal; without one, a line for each thing that happens. */
export async function watch({
  connect,
  output,
  values,
}: Invocation<unknown, { readonly once?: boolean }>): Promise<void> {
  const client = await connect();
  if (values.once) return showOnce(await read(client), output);
  const stop = new AbortController();
  process.on('SIGINT', () => {
    stop.abort();
    client.close();
  });
  const { bell } = await client.call('notify');
  const screen = new Watch(output, { bell });
  const following = client.call('tail', { messages: true }, (event) => screen.take(event));
  try {
    await Promise.race([following, refresh(client, screen, stop.signal)]);
  } catch (error) {
    if (!stop.signal.aborted && !(error instanceof EclipticError && error.code === 'CANCELLED')) throw error;
  } finally {
    stop.abort();
    following.catch(() => {});
  }
}

/** Reads the node's state once a second, and draws in between. */
async function refresh(client: ControlClient, screen: Watch, signal: AbortSignal): Promise<void> {
  const runtime = systemRuntime();
  for (let turn = 0; !signal.aborted; turn++) {
    if (turn % (EVERY_MS / DRAW_MS) === 0) screen.show(await read(client));
    screen.draw(runtime.now());
    await wait(runtime, DRAW_MS, signal);
  }
}

async function read(client: ControlClient): Promise<Snapshot> {
  const [waiting, agents, coding] = await Promise.all([
    client.call('waiting'),
    client.call('agents'),
    client.call('overview'),
  ]);
  return { waiting: waiting.items, missing: waiting.missing, agents, coding };
}

function showOnce({ waiting, missing, agents, coding }: Snapshot, output: Output): void {
  const view = { waiting, missing, agents, coding, refused: [], messages: [] };
  output.value({ ...coding, waiting, missing, states: statesOf(agents) }, () =>
    screenRows(view, { now: systemRuntime().now(), height: Number.MAX_SAFE_INTEGER })
      .slice(0, -2)
      .map(oneLine)
      .join('\n'),
  );
}

/** Draws in place on a terminal; elsewhere prints what is new. */
class Watch {
  readonly #output: Output;
  readonly #area: LiveArea;
  readonly #messages: string[] = [];
  readonly #refused: string[] = [];
  readonly #bell: boolean;
  #view: Snapshot | undefined;
  #isChanged = false;

  constructor(output: Output, { bell }: { bell: boolean }) {
    this.#output = output;
    this.#bell = bell;
    this.#area = new LiveArea(output);
  }

  take(event: TailEvent): void {
    if (this.#output.json) this.#output.line(JSON.stringify({ event: 'message', ...event }));
    else if (event.type === 'routing-decision') this.#takeLine(messageLine(event), event.code !== undefined);
  }

  #takeLine(line: string, isRefused: boolean): void {
    if (!this.#area.live) {
      this.#output.line(line);
      return;
    }
    keep(this.#messages, line);
    if (isRefused) keep(this.#refused, line);
    this.#isChanged = true;
  }

  show(view: Snapshot): void {
    const before = this.#view;
    this.#view = view;
    if (this.#area.live) {
      // Ages change even if nothing else does.
      this.#isChanged = true;
      if (this.#bell && before && isMore(before, view)) process.stdout.write(BELL);
      return;
    }
    const { waiting, missing, agents } = view;
    if (this.#output.json) {
      if (isOther([waiting, missing], [before?.waiting, before?.missing])) {
        this.#output.line(JSON.stringify({ event: 'waiting', items: waiting, missing }));
      }
      const states = statesOf(agents);
      if (isOther(states, before && statesOf(before.agents))) {
        this.#output.line(JSON.stringify({ event: 'agents', agents: states }));
      }
      return;
    }
    for (const line of changes(before, view)) this.#output.line(`${clockText(systemRuntime().now())} ${oneLine(line)}`);
  }

  draw(now: number): void {
    if (!this.#area.live || !this.#isChanged || !this.#view) return;
    this.#isChanged = false;
    const height = (process.stdout.rows || DEFAULT_ROWS) - 1;
    const view = { ...this.#view, refused: this.#refused, messages: this.#messages };
    this.#area.draw(screenRows(view, { now, height }));
  }
}

/** Does something wait that did not? */
function isMore(before: Snapshot, { waiting }: Snapshot): boolean {
  const known = new Set(before.waiting.map(({ id }) => id));
  return waiting.some(({ id }) => !known.has(id));
}

/** What waits and did not, what waits no longer, and agents in another state. */
function changes(before: Snapshot | undefined, { waiting, agents }: Snapshot): string[] {
  const known = new Set(before?.waiting.map(({ id }) => id));
  const still = new Set(waiting.map(({ id }) => id));
  const address = ({ id, node }: AgentRow) => `${id}@${node}`;
  const states = new Map(before?.agents.map((row) => [address(row), row.state]));
  return [
    ...waiting.filter(({ id }) => !known.has(id)).map((item) => `▲ for you: ${aboutItem(item)}  (${answerLine(item)})`),
    ...(before?.waiting ?? [])
      .filter(({ id }) => !still.has(id))
      .map(({ id, title }) => `● no longer waits: ${id}: ${title}`),
    ...(before ? agents.filter((row) => states.get(address(row)) !== row.state).map(agentLine) : [countsOf(agents)]),
  ];
}

/** Without the load, which changes all the time. */
function statesOf(agents: readonly AgentRow[]): object[] {
  return agents.map(({ id, node, state, reason }) => ({ id, node, state, reason }));
}

function countsOf(agents: readonly AgentRow[]): string {
  const counts = new Map<string, number>();
  for (const { state } of agents) counts.set(state, (counts.get(state) ?? 0) + 1);
  return `agents: ${[...counts].map(([state, count]) => `${count} ${state}`).join(', ') || 'none'}`;
}

function keep(lines: string[], line: string): void {
  lines.push(line);
  if (lines.length > KEPT) lines.shift();
}

function isOther(now: unknown, before: unknown): boolean {
  return JSON.stringify(now) !== JSON.stringify(before);
}
