import { describe, expect, it } from 'vitest';
import { quietFor } from './wake-machine.js';

const HOUR = 3_600_000;
const at = (hour: number, minute = 0) => new Date(2_026, 4, 5, hour, minute).getTime();

describe('quiet hours', () => {
  it('last until their end, also over midnight', () => {
    expect(quietFor('22:00-07:00', at(23))).toBe(8 * HOUR);
    expect(quietFor('22:00-07:00', at(6, 30))).toBe(HOUR / 2);
    expect(quietFor('12:00-13:00', at(12, 59))).toBe(60_000);
  });

  it('are over at their end, and where none are set', () => {
    expect(quietFor('22:00-07:00', at(7))).toBe(0);
    expect(quietFor('22:00-07:00', at(21, 59))).toBe(0);
    expect(quietFor('07:00-07:00', at(7))).toBe(0);
    expect(quietFor(undefined, at(3))).toBe(0);
  });
});
