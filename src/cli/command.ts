import type { ParseArgsConfig } from 'node:util';
import type { ControlClient } from '../node/control/client.js';
import type { Output } from './output.js';

export type Values = Readonly<Record<string, string | boolean | undefined>>;

/** What a command gets to work with. */
export interface Invocation {
  readonly values: Values;
  readonly words: readonly string[];
  readonly output: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The data folder by flag, environment, configuration file or default. */
  dataFolder(): Promise<string>;
  /** A connection to the running node. */
  connect(): Promise<ControlClient>;
}

export interface Command {
  readonly summary: string;
  /** Everything after `ecliptic`. */
  readonly usage: string;
  readonly options?: ParseArgsConfig['options'];
  /** One line for each option of its own. */
  readonly optionHelp?: readonly (readonly [string, string])[];
  readonly examples: readonly string[];
  /** How many words besides options it takes: [least, most]. */
  readonly words?: readonly [number, number];
  /** For what others run as a hook: the code that it ends with when it cannot work, for which nobody is stopped. */
  readonly failsWith?: (args: readonly string[]) => number;
  run(invocation: Invocation): Promise<void>;
}
