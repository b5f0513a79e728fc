import { afterEach, describe, expect, it, vi } from 'vitest';
import { EclipticError, ERRORS } from '../runtime/errors.js';
import { helpOn } from './help.js';
import { TABLE } from './nouns.js';
import { Output, oneLine, usage } from './output.js';

afterEach(() => vi.restoreAllMocks());

describe('text on one line', () => {
  it('has a space for a line break, and nothing that steers the terminal [T-G3]', () => {
    expect(oneLine('[ ] look\n[ ] write\r\n\tand test')).toBe('[ ] look [ ] write and test');
    expect(oneLine('half\u001b[2Jway')).toBe('half\ufffd[2Jway');
  });
});

describe('a failure', () => {
  it.each(Object.keys(ERRORS))('%s has help that says what to do [FM.help]', async (code) => {
    const text = await helpOn([code], TABLE);
    expect(text).toMatch(new RegExp(`^${code}: \\S.*\\n\\nWhat to do: \\S`));
  });

  it('names the next command, once [FM.help]', () => {
    const said: string[] = [];
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => said.push(String(text)) > 0);
    const output = new Output(false, {});
    output.failure(new EclipticError('MAILBOX_FULL', 'the mailbox of mars is full'));
    output.failure(new EclipticError('NO_WORKER', 'mars has no worker; staff it with: ecliptic staff'));
    output.failure(new EclipticError('AGENT_NOT_FOUND', 'there is no agent x'));
    output.failure(usage('--tier is 0 to 3; see: ecliptic new agent --help'));
    expect(said.map((text) => text.split('\n')[1])).toEqual([
      'What to do: ecliptic help MAILBOX_FULL',
      '',
      'List the agents with: ecliptic agents',
      '',
    ]);
  });
});

describe('a table', () => {
  const table = (columns: number | undefined) => {
    const lines: string[] = [];
    vi.spyOn(process.stdout, 'write').mockImplementation((text) => lines.push(String(text)) > 0);
    const { isTTY, columns: before } = process.stdout;
    Object.assign(process.stdout, { isTTY: columns !== undefined, columns });
    try {
      new Output(false, { NO_COLOR: '1' }).rows([{ remark: 'r'.repeat(100) }], 'none', ({ remark }) => ({
        AGENT: 'mars',
        REMARK: remark,
      }));
    } finally {
      Object.assign(process.stdout, { isTTY, columns: before });
      vi.restoreAllMocks();
    }
    return lines.map((line) => line.trimEnd().length);
  };

  it('fits a terminal, and is whole in a file [FM.width]', () => {
    expect(Math.max(...table(60))).toBe(60);
    expect(Math.max(...table(undefined))).toBe(107);
  });
});
