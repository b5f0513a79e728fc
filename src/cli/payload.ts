import { text } from 'node:stream/consumers';
import { cutText } from '../runtime/text.js';
import type { Values } from './command.js';
import { usage } from './output.js';

/** A payload given on the command line; `-` reads it from standard input. */
export async function readPayload(word: string): Promise<unknown> {
  const source = word === '-' ? await text(process.stdin) : word;
  try {
    return JSON.parse(source);
  } catch {
    const start = cutText(source.trim(), 60);
    const text = /^[^"{[\]}]+$/.test(start)
      ? `; a text is written in quotes of both kinds: '${JSON.stringify(start)}'`
      : '';
    throw usage(`the payload is not JSON: ${start}${text}`);
  }
}

/** An option that must be given. */
export function required(values: Values, name: string): string {
  const value = values[name];
  if (typeof value !== 'string' || value === '') throw usage(`--${name} is missing`);
  return value;
}

/** An option that must be a number if it is given. */
export function numeric(values: Values, name: string): number | undefined {
  const value = values[name];
  if (value === undefined) return undefined;
  const number = Number(value);
  if (value === '' || !Number.isFinite(number)) throw usage(`--${name} must be a number, not "${value}"`);
  return number;
}

/** An option that must be a whole number, if it is given. */
export function whole(values: Values, name: string): number | undefined {
  const number = numeric(values, name);
  if (number === undefined || (Number.isSafeInteger(number) && number >= 0)) return number;
  throw usage(`--${name} must be a whole number, not "${values[name]}"`);
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** An option that must be a time if it is given: `90s`, `15m`, `7d`. */
export function duration(values: Values, name: string): number | undefined {
  const value = values[name];
  if (value === undefined) return undefined;
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(String(value)) ?? [];
  if (amount === undefined || Number(amount) === 0) throw usage(`--${name} must be a time like 90s, 15m or 7d`);
  return Number(amount) * UNITS[unit!]!;
}

/** The same, where a number alone is milliseconds. */
export function durationOrMs(values: Values, name: string): number | undefined {
  const value = values[name];
  const isNumber = typeof value === 'string' && /^\d+(\.\d+)?$/.test(value);
  if (isNumber && Number(value) > 0) return Number(value);
  try {
    if (!isNumber) return duration(values, name);
  } catch {
    // The usage error below names both forms.
  }
  throw usage(`--${name} must be a time like 500 (ms), 90s, 15m or 7d, not "${value}"`);
}

/** An option that may list several values, separated by commas. */
export function listed(values: Values, name: string): string[] | undefined {
  const value = values[name];
  if (typeof value !== 'string') return undefined;
  return value.split(',').map((part) => part.trim());
}

/** `--to AGENT`, or `--capability ID` in its place. */
export function addressee(values: Values): { to?: string; capability?: string } {
  if (typeof values.capability === 'string') return { capability: values.capability };
  return { to: required(values, 'to') };
}
