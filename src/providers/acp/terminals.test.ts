import { describe, expect, it } from 'vitest';
import { commandLine } from './terminals.js';

describe('the approval subject of a command', () => {
  it.each([
    [{ command: 'npm test' }, 'npm test'],
    [{ command: 'npm', args: ['run', 'a-b'] }, 'npm run a-b'],
    [{ command: 'npm test; rm -rf /' }, 'sh -c npm test; rm -rf /'],
    [{ command: 'npm test\nrm -rf /' }, 'sh -c npm test\nrm -rf /'],
    [{ command: 'npm $(rm -rf /)' }, 'sh -c npm $(rm -rf /)'],
    [{ command: 'npm', args: ['run; rm', ''] }, 'npm "run; rm" ""'],
    [{ command: 'npm test', env: [{ name: 'PATH', value: './evil' }] }, 'PATH=./evil npm test'],
    [{ command: 'npm', args: ['t'], env: [{ name: 'A', value: 'b c' }] }, 'A="b c" npm t'],
  ])('%j is "%s"', (request, line) => {
    expect(commandLine(request)).toBe(line);
  });
});
