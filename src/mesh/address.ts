/** An agent's full address is `id@node`; on its own node it is just `id`. */
export function joinAddress(id: string, node: string | undefined): string {
  return node === undefined ? id : `${id}@${node}`;
}

export function splitAddress(address: string): { id: string; node: string | undefined } {
  const at = address.indexOf('@');
  return at < 0 ? { id: address, node: undefined } : { id: address.slice(0, at), node: address.slice(at + 1) };
}

/** The address that other nodes use: one without a node is an agent of this node. */
export function fullAddress(address: string, nodeKey: string | undefined): string {
  return address.includes('@') ? address : joinAddress(address, nodeKey);
}
