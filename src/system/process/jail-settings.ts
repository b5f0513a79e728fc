/** What a jailed program may reach beyond its workspace. Paths are absolute. */
export interface JailSettings {
  /** Refuse to start the program where this machine has no jail. Otherwise it starts without one, which is shown. */
  readonly required?: boolean | undefined;
  /** `host:port` or `*.domain:port`. Default: nothing. */
  readonly network?: readonly string[] | undefined;
  /** Files and folders that it may read. */
  readonly read?: readonly string[] | undefined;
  /** Files and folders that it may read and write. */
  readonly write?: readonly string[] | undefined;
}

/** The jail of one program. */
export interface JailRequest extends JailSettings {
  /** Programs of one name share a private home folder. */
  readonly name: string;
  /** The folder that the program works in, and may write. */
  readonly workspace: string;
  /** A folder of the node that belongs to the program, such as that of its lane. */
  readonly own?: string | undefined;
  /** May it reach the MCP endpoint of this node? */
  readonly mesh?: boolean | undefined;
}

/** The jail that a program is in, or why it is in none. */
export type JailState =
  | { readonly kind: 'bwrap' | 'sandbox-exec'; readonly version: string; readonly gaps: readonly string[] }
  | { readonly kind: 'none'; readonly reason: string; readonly remedy: string };

/** For people, in one line. */
export function jailText(state: JailState): string {
  if (state.kind === 'none') return `none: ${state.reason}`;
  return state.gaps.length === 0 ? state.kind : `${state.kind} (${state.gaps.join('; ')})`;
}
