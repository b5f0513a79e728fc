import { describe, expect, it } from 'vitest';
import { firstProgram, shellProgram } from './shell.js';

describe('a command line', () => {
  it.each([
    ['npm test', 'npm'],
    ['  npm', 'npm'],
    ['CI=1 NODE_ENV=test npm run build', 'npm'],
    ['./run.sh --all', './run.sh'],
    ['make&&make install', 'make'],
    ['sort<input', 'sort'],
    ['(npm test)', undefined],
    ['cd sub && npm test', undefined],
    ['if true; then npm test; fi', undefined],
    ['PATH=/opt/bin tool', undefined],
    ['"my program" x', undefined],
    ['$TOOL x', undefined],
    ['~/bin/tool', undefined],
    ['tool*', undefined],
    ['A="x y" tool', undefined],
    ['A=1; tool', undefined],
    ['2>errors tool', undefined],
    ['tool() { true; }; tool', undefined],
    ['', undefined],
  ])('%j begins with the program %j, if that is certain [WK.E7]', (line, program) => {
    expect(firstProgram(line)).toBe(program);
  });

  it('is one argument of the shell', () => {
    expect(shellProgram('echo "a b"').args).toContain('echo "a b"');
  });
});
