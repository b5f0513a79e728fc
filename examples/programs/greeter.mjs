// An agent in plain Node, without any package: `"agents": { "greeter": { "command": { "command": "node", "args": […] } } }`.
import { createInterface } from 'node:readline';

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const underWay = new Map();

createInterface({ input: process.stdin }).on('line', (line) => {
  const { type, id, input } = JSON.parse(line);
  if (type === 'hello') say({ type: 'ready', protocol: 1, name: 'greeter' });
  if (type === 'health') say({ type: 'health', id, state: 'healthy' });
  if (type === 'cancel') {
    clearTimeout(underWay.get(id));
    say({ type: 'error', id, code: 'cancelled', message: 'cancelled' });
  }
  if (type === 'execute') {
    if (typeof input?.name !== 'string') {
      return say({ type: 'error', id, code: 'invalid-input', message: 'whom shall I greet? { "name": … }' });
    }
    say({ type: 'progress', id, text: `thinking about ${input.name}` });
    const timer = setTimeout(() => say({ type: 'result', id, result: { greeting: `Hello, ${input.name}!` } }), 20);
    underWay.set(id, timer);
  }
});
