import { describe, expect, it } from 'vitest';
import { oneLine } from './output.js';

describe('text on one line', () => {
  it('has a space for a line break, and nothing that steers the terminal [T-G3]', () => {
    expect(oneLine('[ ] look\n[ ] write\r\n\tand test')).toBe('[ ] look [ ] write and test');
    expect(oneLine('half\u001b[2Jway')).toBe('half\ufffd[2Jway');
  });
});
