/** What is shorter than this is no secret, and would be found everywhere. */
const MIN_CHARS = 6;

/** Takes an upstream server's secrets out of what is said about it. */
export class Redactor {
  readonly #secrets: readonly string[];

  constructor(secrets: Iterable<string>) {
    // Longer ones first: one may begin with another.
    this.#secrets = [...new Set(secrets)]
      .filter(({ length }) => length >= MIN_CHARS)
      .sort((a, b) => b.length - a.length);
  }

  readonly clean = (text: string): string => {
    let clean = text;
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, '[secret]');
    return clean;
  };
}
