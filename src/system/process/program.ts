import type { Environment } from './environment.js';
import type { JailRequest } from './jail-settings.js';

export interface Program {
  readonly command: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  /** Added to the few environment variables that every child gets. */
  readonly env?: Environment;
  /** For logs and errors. Default: the command. */
  readonly name?: string;
  /** Removes secrets from each line of its stderr. */
  readonly redact?: (line: string) => string;
  /** Called with the lines of its stderr that are not empty, cut to 4,096 characters, with their secrets. */
  readonly onStderr?: (lines: readonly string[]) => void;
  /** On Windows, the arguments are not quoted: `cmd.exe` has rules of its own. */
  readonly verbatim?: boolean;
  /** Starts it in a jail of the operating system. Default: none. */
  readonly jail?: JailRequest | undefined;
  /** The process that is started is the jail, which ends with the program: signals go to the others of its group. */
  readonly isJail?: boolean;
}
