import { LeasePlace } from './lease-place.js';

/** A device of its own process: takes a lease, says its token, and stays until it is killed. */
const [url, glob] = process.argv.slice(2) as [string, string];
const place = await LeasePlace.open([url]);
await place.connection.ready(10_000);
for (;;) {
  const token = await place.take(glob);
  if (token) {
    process.stdout.write(`${token}\n`);
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 100));
}
setInterval(() => {}, 1_000);
