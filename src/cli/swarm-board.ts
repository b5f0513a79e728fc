import type { SwarmEvent, SwarmRow } from '../node/control/rows.js';
import type { SwarmSubTask } from '../work/swarm/swarm-session.js';
import { LiveArea } from './live-area.js';
import { type Output, oneLine } from './output.js';

/** More sub-tasks are not drawn. */
const MAX_ROWS = 20;

export type SwarmEnding = Extract<SwarmEvent, { event: 'ended' }>;

/**
 * Shows the events of a swarm: on a terminal a board that is redrawn, with the holder, progress and attempts of each
 * sub-task; elsewhere a line for each change, as JSON for programs.
 */
export class SwarmBoardView {
  readonly subTasks = new Map<string, SwarmSubTask>();
  ending: SwarmEnding | undefined;
  readonly #output: Output;
  readonly #area: LiveArea;
  #row: SwarmRow | undefined;

  constructor(output: Output) {
    this.#output = output;
    this.#area = new LiveArea(output);
  }

  take(event: SwarmEvent): void {
    if (this.#output.json && event.event !== 'ended') this.#output.line(JSON.stringify(event));
    const line = this.#learn(event);
    if (this.#output.json) return;
    this.#area.erase();
    if (line !== undefined) this.#output.line(oneLine(line));
    if (this.#row && event.event !== 'ended') this.#area.draw(boardRows(this.#row, [...this.subTasks.values()]));
  }

  close(): void {
    this.#area.erase();
  }

  /** All results, in the plan's order. */
  get results(): Record<string, unknown> {
    const done = [...this.subTasks.values()].filter(({ status }) => status === 'completed');
    return Object.fromEntries(done.map(({ id, result }) => [id, result]));
  }

  /** Takes an event in; returns a line to print where no board is drawn. */
  #learn(event: SwarmEvent): string | undefined {
    switch (event.event) {
      case 'swarm': {
        const changed = this.#row?.status !== event.status || this.#row.epoch !== event.epoch;
        this.#row = event;
        return changed && !this.#area.live ? headline(event) : undefined;
      }
      case 'sub-task': {
        const before = this.subTasks.get(event.id);
        this.subTasks.set(event.id, event);
        const changed = before?.status !== event.status || before.attempts !== event.attempts;
        return !this.#area.live && changed && event.status !== 'pending' ? subTaskText(event) : undefined;
      }
      case 'escalation':
        return `${event.subTask ?? 'the swarm'}: ${event.kind}: ${event.reason}`;
      case 'ended':
        this.ending = event;
        return undefined;
    }
  }
}

/** `3 of 5 done, 1 running, 1 waiting; 2 retries; settled by sun@… (epoch 1)`. */
export function headline(row: SwarmRow): string {
  const { status, counts, retries, lateResults, arbiter, epoch, confirmed, participants, standby, reason } = row;
  const all = counts.pending + counts.running + counts.completed + counts.failed;
  const parts = [
    `${row.id} is ${status}: ${counts.completed} of ${all} done, ${counts.running} running, ${counts.pending} waiting`,
    ...(counts.failed > 0 ? [`${counts.failed} failed`] : []),
    `${participants.length} at work, ${standby.length} standing by`,
    ...(retries > 0 ? [`${retries} tried again`] : []),
    ...(lateResults > 0 ? [`${lateResults} late results dropped`] : []),
    `settled by ${shortName(arbiter)} (epoch ${epoch})`,
    ...(confirmed ? [] : [`unconfirmed${reason === null ? '' : `: ${reason}`}`]),
  ];
  return parts.join('; ');
}

export function subTaskText({
  id,
  status,
  assignedAgent,
  attempts,
  progress,
  reason,
  unconfirmed,
}: SwarmSubTask): string {
  const who = status === 'pending' ? `for ${shortName(assignedAgent)}` : `by ${shortName(assignedAgent)}`;
  const often = attempts > 1 ? `, attempt ${attempts}` : '';
  const said = status === 'running' && progress !== undefined ? ` … ${textOf(progress)}` : '';
  const why = reason !== undefined && status !== 'completed' ? ` (${reason})` : '';
  return `${id}: ${status}${unconfirmed ? ' (unconfirmed)' : ''} ${who}${often}${said}${why}`;
}

function boardRows(row: SwarmRow, subTasks: readonly SwarmSubTask[]): string[] {
  const rank = { running: 0, failed: 1, pending: 2, completed: 3 };
  const sorted = [...subTasks].sort((a, b) => rank[a.status] - rank[b.status]);
  const shown = sorted.slice(0, MAX_ROWS).map((subTask) => `  ${subTaskText(subTask)}`);
  const more = sorted.length - shown.length;
  return [headline(row), ...shown, ...(more > 0 ? [`  … and ${more} more`] : [])];
}

/** An address with a shortened key. */
function shortName(address: string): string {
  const at = address.indexOf('@');
  return at < 0 ? address : `${address.slice(0, at)}@${address.slice(at + 1, at + 7)}`;
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
