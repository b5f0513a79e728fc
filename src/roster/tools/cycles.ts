/** Groups of nodes that reach each other, of more than one node each (Tarjan, without recursion). */
export function stronglyConnected(targets: ReadonlyMap<string, readonly string[]>): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const onStack = new Set<string>();
  const stack: string[] = [];
  const groups: string[][] = [];
  const enter = (node: string) => {
    index.set(node, index.size);
    low.set(node, index.get(node)!);
    stack.push(node);
    onStack.add(node);
    return { node, next: 0 };
  };
  for (const start of targets.keys()) {
    if (index.has(start)) continue;
    const path = [enter(start)];
    while (path.length > 0) {
      const top = path.at(-1)!;
      const to = targets.get(top.node)?.[top.next++];
      if (to !== undefined) {
        if (!index.has(to)) path.push(enter(to));
        else if (onStack.has(to)) low.set(top.node, Math.min(low.get(top.node)!, index.get(to)!));
        continue;
      }
      path.pop();
      const above = path.at(-1);
      if (above) low.set(above.node, Math.min(low.get(above.node)!, low.get(top.node)!));
      if (low.get(top.node) !== index.get(top.node)) continue;
      const group = stack.splice(stack.lastIndexOf(top.node));
      for (const node of group) onStack.delete(node);
      if (group.length > 1) groups.push(group.sort());
    }
  }
  return groups.sort((a, b) => (a[0]! < b[0]! ? -1 : 1));
}

/** The shortest cycle through the first node of a group that has a shortest one; it begins and ends with that node. */
export function shortestCycle(targets: ReadonlyMap<string, readonly string[]>, group: readonly string[]): string[] {
  const members = new Set(group);
  let best: string[] | undefined;
  for (const start of group.slice(0, 200)) {
    const before = new Map<string, string>();
    const queue = [start];
    search: for (const node of queue) {
      for (const to of targets.get(node) ?? []) {
        if (to === start) {
          const cycle = [start];
          for (let at: string | undefined = node; at !== undefined; at = before.get(at)) cycle.unshift(at);
          if (!best || cycle.length < best.length) best = cycle;
          break search;
        }
        if (!members.has(to) || before.has(to)) continue;
        before.set(to, node);
        queue.push(to);
      }
    }
    if (best?.length === 3) break;
  }
  return best!;
}
