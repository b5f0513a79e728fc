import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';

/** Every file under a folder, with its content. */
export function* contents(under: string): Generator<[string, Buffer]> {
  for (const entry of readdirSync(under, { withFileTypes: true })) {
    const path = join(under, entry.name);
    if (entry.isDirectory()) yield* contents(path);
    else if (entry.isFile()) yield [path, readFileSync(path)];
  }
}

/** Values are in no file and in nothing that was said, as they are or in the forms that they are sent and dumped in. */
export function expectNowhere(folder: string, said: readonly string[], ...values: readonly string[]): void {
  const forms = values.flatMap((value) => [
    value,
    Buffer.from(value).toString('base64'),
    Buffer.from(value).toString('hex'),
    encodeURIComponent(value),
  ]);
  const all = said.join('\n');
  for (const form of forms) expect(all.includes(form), 'it was said').toBe(false);
  for (const [path, bytes] of contents(folder)) {
    for (const form of forms) expect(bytes.includes(form), `it is in ${path}`).toBe(false);
  }
}
