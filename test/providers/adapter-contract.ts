import { afterEach, describe, expect, it } from 'vitest';
import type { ProviderAdapter } from '../../src/providers/adapter/adapter.js';
import { NormalizedProviderError } from '../../src/providers/adapter/errors.js';

/** An adapter with a real provider, and work for it. */
export interface AdapterSubject {
  readonly adapter: ProviderAdapter<never, never, unknown>;
  readonly config: unknown;
  /** A configuration that cannot become ready. */
  readonly badConfig: unknown;
  /** Work that completes at once, and its result. */
  readonly input: unknown;
  check(output: unknown): void;
  /** Work that runs until it is ended. */
  readonly endless: unknown;
  /** Resolves when the provider has begun with that. */
  begun(): Promise<unknown>;
  /** Work that the provider fails at. */
  readonly failing: unknown;
  /** Something that the provider cannot take at all; left out where it takes anything. */
  readonly invalid?: unknown;
  /** Makes the provider unable to do its work. */
  break(): Promise<void>;
  close(): Promise<void>;
}

/** The contract of every adapter. */
export function adapterContract(name: string, create: () => Promise<AdapterSubject>): void {
  describe(`${name}, as an adapter`, () => {
    const subjects: AdapterSubject[] = [];

    afterEach(async () => {
      for (const subject of subjects.splice(0)) {
        await subject.adapter.terminate();
        await subject.close();
      }
    });

    async function started() {
      const subject = await create();
      subjects.push(subject);
      const adapter = subject.adapter as ProviderAdapter;
      await adapter.init(subject.config);
      return { subject, adapter };
    }

    it('becomes ready, is healthy, does its work and ends', async () => {
      const { subject, adapter } = await started();
      const { state, lastCheck } = await adapter.health();
      expect(state).toBe('healthy');
      expect(lastCheck).toBeInstanceOf(Date);
      subject.check(await adapter.execute(subject.input, 'c-1'));
      await adapter.terminate();
      await expectError(adapter.execute(subject.input, 'c-2'), 'PROVIDER_UNAVAILABLE', 'c-2');
    });

    it('works on many things at a time', async () => {
      const { subject, adapter } = await started();
      const all = Array.from({ length: 10 }, (_, index) => adapter.execute(subject.input, `c-${index}`));
      for (const output of await Promise.all(all)) subject.check(output);
    });

    it('may be ended at any time, and begin anew', async () => {
      const { subject, adapter } = await started();
      await Promise.all([adapter.terminate(), adapter.terminate()]);
      await adapter.terminate();
      await adapter.init(subject.config);
      subject.check(await adapter.execute(subject.input, 'c-1'));
    });

    it('says why it cannot become ready, and leaves nothing behind', async () => {
      const subject = await create();
      subjects.push(subject);
      const adapter = subject.adapter as ProviderAdapter;
      await expect(adapter.health()).rejects.toBeInstanceOf(NormalizedProviderError);
      const error = await adapter.init(subject.badConfig).catch((thrown) => thrown);
      expect(error).toBeInstanceOf(NormalizedProviderError);
      await adapter.init(subject.config);
      expect((await adapter.health()).state).toBe('healthy');
    });

    it('ends what is in flight when it is ended', async () => {
      const { subject, adapter } = await started();
      const endless = adapter.execute(subject.endless, 'c-1');
      endless.catch(() => {});
      await subject.begun();
      await adapter.terminate();
      await expectError(endless, 'PROVIDER_TERMINATED', 'c-1');
    });

    it('ends what its caller wants no more, and nothing else', async () => {
      const { subject, adapter } = await started();
      const caller = new AbortController();
      const endless = adapter.execute(subject.endless, 'c-1', { signal: caller.signal });
      endless.catch(() => {});
      await subject.begun();
      const other = adapter.execute(subject.input, 'c-2');
      caller.abort();
      await expectError(endless, 'PROVIDER_CANCELLED', 'c-1');
      subject.check(await other);
      await expectError(adapter.execute(subject.input, 'c-3', { signal: caller.signal }), 'PROVIDER_CANCELLED', 'c-3');
    });

    it('reports failures of the provider as its own, and goes on', async () => {
      const { subject, adapter } = await started();
      await expectError(adapter.execute(subject.failing, 'c-1'), 'PROVIDER_EXECUTE_FAILED', 'c-1');
      if (subject.invalid !== undefined) {
        await expectError(adapter.execute(subject.invalid, 'c-2'), 'PROVIDER_INVALID_INPUT', 'c-2');
      }
      subject.check(await adapter.execute(subject.input, 'c-3'));
    });

    it('is not healthy when it could not work', async () => {
      const { subject, adapter } = await started();
      await subject.break();
      const state = await adapter.health().then(
        (status) => status.state,
        (error) => {
          expect(error).toBeInstanceOf(NormalizedProviderError);
          return 'failed';
        },
      );
      expect(state).not.toBe('healthy');
      const error = await adapter.execute(subject.input, 'c-1').catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(NormalizedProviderError);
      expect(error).toMatchObject({ correlationId: 'c-1' });
    });
  });
}

export async function expectError(work: Promise<unknown>, code: string, correlationId?: string): Promise<void> {
  const error = await work.then(
    (value) => ({ resolved: value }),
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(NormalizedProviderError);
  expect(error).toMatchObject({ code, ...(correlationId !== undefined && { correlationId }) });
}
