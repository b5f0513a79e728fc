/** The machine as setup sees it. */
export interface Machine {
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  /** Is there a file or folder? */
  exists(path: string): boolean;
  /** Is there a program of that name on the path? */
  has(program: string): boolean;
}

/** How the client starts this agent's server: by an absolute command, so that nothing is looked up or fetched. */
export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
}

/** How a server is entered in a configuration: what its text becomes. */
export interface Entry {
  set(text: string | undefined, server: ServerCommand): string;
  /** Undefined where nothing is left. */
  remove(text: string): string | undefined;
}

/** One coding agent that setup knows: where its configuration is, and how a server is entered there. */
export interface Client {
  readonly id: string;
  readonly title: string;
  isHere(machine: Machine): boolean;
  file(machine: Machine): string;
  readonly entry: Entry;
  /** Where its hooks are, for clients that have some by which mail can reach them. */
  readonly hooks?: { file(machine: Machine): string; readonly entry: Entry };
  /** What its user must do before its hooks run. */
  readonly hookTrust?: string;
  /** Where its hook is that asks before a file is written. */
  readonly guard?: { file(machine: Machine): string; readonly entry: Entry };
}
