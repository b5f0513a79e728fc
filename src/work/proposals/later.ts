/** A promise that is made only for those who ask. What it rejects with is nobody's fault who does not look. */
export class Later<T> {
  #promise: Promise<T> | undefined;
  #resolve: ((value: T) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;
  #outcome: { readonly value: T } | { readonly error: unknown } | undefined;

  get promise(): Promise<T> {
    if (this.#promise) return this.#promise;
    const promise = new Promise<T>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    promise.catch(() => {});
    this.#promise = promise;
    this.#settle();
    return promise;
  }

  resolve(value: T): void {
    this.#outcome ??= { value };
    this.#settle();
  }

  reject(error: unknown): void {
    this.#outcome ??= { error };
    this.#settle();
  }

  #settle(): void {
    if (!this.#promise || !this.#outcome) return;
    if ('error' in this.#outcome) this.#reject!(this.#outcome.error);
    else this.#resolve!(this.#outcome.value);
  }
}
