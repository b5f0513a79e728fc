import { createInterface } from 'node:readline';

/** Answers each line at once: the benchmark measures the round trip. */
createInterface({ input: process.stdin }).on('line', (line) => {
  const { type, id, input } = JSON.parse(line);
  if (type === 'hello') process.stdout.write('{"type":"ready","protocol":1}\n');
  else if (type === 'health') process.stdout.write(`{"type":"health","id":${id},"state":"healthy"}\n`);
  else process.stdout.write(`{"type":"result","id":${id},"result":${JSON.stringify(input)}}\n`);
});
