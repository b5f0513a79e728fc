import { TASK_STATES } from '../../a2a/protocol/task-rules.js';
import type { Task, TaskState } from '../../a2a/protocol/types.js';
import type { TaskRecord } from '../../a2a/server/task-records.js';
import type { Gateway } from '../../http/gateway.js';
import { EclipticError } from '../../runtime/errors.js';
import { fitting } from './page.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';
import { CANDIDATES, completeId } from './short-ids.js';
import { lastChange, type TaskRow, taskRow, WORK_KINDS, type WorkingNode, type WorkKind, workOf } from './work-rows.js';

/** A task with whose it is and who works on it. */
export interface TaskDetail extends TaskRow {
  readonly task: Task;
}

const DEFAULT_ROWS = 100;

/** The owner's operations on tasks, whoever they belong to. Proposals and swarms have operations of their own. */
export function taskMethods(node: WorkingNode, gateway: () => Gateway): Readonly<Record<string, ControlMethod>> {
  const idOf = async (params: Readonly<Record<string, unknown>>) => {
    const given = new Params(params).string('id');
    return completeId(given, await gateway().tasks.idsBeginning(given, CANDIDATES));
  };
  return {
    async tasks(params) {
      const read = new Params(params);
      const kinds = { kind: 'string', state: 'string', caller: 'string', limit: 'number' } as const;
      const { kind, state, caller, limit = DEFAULT_ROWS } = read.optional(kinds);
      const only = kind === undefined ? undefined : read.oneOf('kind', kind, WORK_KINDS);
      if (!Number.isSafeInteger(limit) || limit < 0) throw new EclipticError('USAGE', '"limit" must be a whole number');
      const wanted = state === undefined ? undefined : stateOf(read, state);
      const has = (one: WorkKind) => only === undefined || only === one;
      const tasks = has('a2a') ? await gateway().tasks.list({ state: wanted, caller, limit }) : [];
      const work = workOf(node)
        .filter((row) => has(row.kind) && (wanted === undefined || row.state === wanted))
        .filter((row) => caller === undefined || row.caller === caller);
      const rows = [...tasks.map(taskRow), ...work].sort((a, b) => lastChange(b) - lastChange(a)).slice(0, limit);
      return fitting(rows, (row) => JSON.stringify(row).length);
    },
    async task(params) {
      return detailOf(await gateway().tasks.get(await idOf(params)));
    },
    // The task as it is, then everything that happens to it, until it ends or nobody listens.
    async 'task.follow'(params, { emit, drained, signal }) {
      const { tasks } = gateway();
      const record = await tasks.get(await idOf(params));
      emit(detailOf(record));
      const events = await tasks.follow(record.model.task.id, record.model.sequence);
      const leave = () => void events.return();
      if (signal.aborted) leave();
      signal.addEventListener('abort', leave);
      for (let step = await events.next(); !step.done; step = await events.next()) {
        emit(step.value.event);
        await drained();
      }
      signal.removeEventListener('abort', leave);
    },
    async 'task.cancel'(params) {
      return gateway().tasks.cancel(await idOf(params));
    },
    'node.card'() {
      return gateway().card;
    },
  };
}

/** `working` is short for `TASK_STATE_WORKING`. */
function stateOf(params: Params, said: string): TaskState {
  const short = (state: string) =>
    state
      .replace(/^TASK_STATE_/, '')
      .replaceAll('_', '-')
      .toLowerCase();
  const name = params.oneOf('state', short(said.toUpperCase().replaceAll('-', '_')), TASK_STATES.map(short));
  return TASK_STATES.find((state) => short(state) === name)!;
}

function detailOf(record: TaskRecord): TaskDetail {
  return { ...taskRow(record), task: record.model.task };
}
