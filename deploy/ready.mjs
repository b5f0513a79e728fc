// Exits with 0 once the node on this machine is ready, else with 1 after SECONDS (default 0: asks once).
// usage: node ready.mjs [SECONDS]      Reads PORT and BIND_HOST, like `ecliptic up`.
import { setTimeout as sleep } from 'node:timers/promises';

const { PORT, BIND_HOST } = process.env;
const host = !BIND_HOST || BIND_HOST === '0.0.0.0' || BIND_HOST === '::' ? '127.0.0.1' : BIND_HOST;
const url = `http://${host.includes(':') ? `[${host}]` : host}:${PORT || 3000}/readyz`;
const until = Date.now() + Number(process.argv[2] ?? 0) * 1_000;

/** Why the node is not ready; undefined if it is. */
async function problem() {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(3_000) });
    const text = await response.text();
    return response.ok ? undefined : `${response.status} ${text}`;
  } catch (error) {
    return error.cause?.code ?? error.name;
  }
}

for (let found = await problem(); found !== undefined; found = await problem()) {
  if (Date.now() >= until) {
    console.error(`not ready: ${url}: ${found}`);
    process.exit(1);
  }
  await sleep(500);
}
