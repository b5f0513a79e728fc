/** A task id names the node that keeps the task: `LOCAL.KEY`. Ids of earlier releases, and of nodes without a mesh, name none. */

/** The key of a node with a proven identity. Dots are unreserved in URLs, and neither ULIDs nor random ids have one. */
const NAMED = /^(.+)\.([0-9a-f]{64})$/s;
const KEY = /^[0-9a-f]{64}$/;

export interface TaskName {
  readonly local: string;
  readonly node: string | undefined;
}

export function splitTaskId(id: string): TaskName {
  const [, local, node] = NAMED.exec(id) ?? [];
  return local === undefined ? { local: id, node: undefined } : { local, node };
}

/** A node without a network has no key that other nodes could know it by; its ids stay local. */
export function joinTaskId(local: string, nodeKey: string | undefined): string {
  return nodeKey !== undefined && KEY.test(nodeKey) ? `${local}.${nodeKey}` : local;
}

/** The id by which every node knows a task of this one. */
export function fullTaskId(id: string, nodeKey: string | undefined): string {
  return splitTaskId(id).node === undefined ? joinTaskId(id, nodeKey) : id;
}
