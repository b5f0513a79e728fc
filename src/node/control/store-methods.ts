import type { ControlContext, Handlers } from './context.js';

/** The owner's operations on the store. */
export function storeMethods({ store }: Pick<ControlContext, 'store'>) {
  return {
    'store.check': () => store.check(),
    'store.compact': () => store.compact(),
    'store.backup': ({ to }) => store.backUp(to),
    async 'store.export'({ table }, { emit, drained, signal }) {
      for await (const exported of store.export(table)) {
        if (signal.aborted) return;
        emit(exported);
        await drained();
      }
    },
  } satisfies Partial<Handlers>;
}
