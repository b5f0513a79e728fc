import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { EclipticError } from '../runtime/errors.js';
import { humanLine, humanLog } from './log-line.js';

describe('the log on a terminal', () => {
  it('has one line for an entry: time, level, subject and fields [FC.49]', () => {
    const lines: string[] = [];
    const logger = pino({ level: 'debug' }, humanLog({ write: (text) => lines.push(text) }));
    logger.warn({ provider: 'mars', code: 1, said: 'two words' }, 'provider exited');
    logger.error({ err: new EclipticError('STORE_FAILED', 'the disk is full') }, 'store: a group of writes failed');
    logger.debug({}, 'message delivered');
    expect(lines.map((line) => line.replace(/^\d\d:\d\d:\d\d/, 'TIME'))).toEqual([
      'TIME warn  provider exited  provider=mars  code=1  said="two words"\n',
      'TIME error store: a group of writes failed  STORE_FAILED: the disk is full\n',
      'TIME debug message delivered\n',
    ]);
  });

  it('passes no control character of an agent to the terminal [FC.49]', () => {
    const entry = { level: 30, time: 0, msg: 'a\u001b[31mb\nfake: line', by: 'x\u009b2J' };
    const line = humanLine(JSON.stringify(entry));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
    expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    expect(line).toContain('00:00:00 info  a');
    expect(humanLine('no JSON\u001b[2J')).toBe('no JSON\ufffd[2J');
  });
});
