import { isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, visit } from 'yaml';
import type { z } from 'zod';

export type Path = readonly (string | number)[];

/** Something that is wrong with a plan, and where. */
export interface Fault {
  readonly line: number;
  readonly column: number;
  /** What is wrong, beginning with what it is wrong with. */
  readonly message: string;
}

/** Mistakes that make a text no YAML at all may come in crowds. */
const MAX_SYNTAX_FAULTS = 20;

/** A plan's text as a value whose parts know their places. JSON is read as the YAML that it is. */
export class PlanText {
  readonly value: unknown;
  /** What keeps it from being read at all. */
  readonly syntaxFaults: readonly Fault[];
  readonly #root: Node | null;
  readonly #lines = new LineCounter();

  constructor(text: string) {
    const document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false });
    const wrong = [...document.errors, ...document.warnings].slice(0, MAX_SYNTAX_FAULTS);
    const faults = wrong.map(({ pos, message }) => this.#at(pos[0], message.split('\n')[0]!));
    this.#root = document.contents as Node | null;
    // Such a key would poison a prototype instead of being one.
    visit(document, {
      Pair: (_, { key }) => {
        if (!isScalar(key) || key.value !== '__proto__') return;
        faults.push(this.#at(key.range?.[0] ?? 0, '__proto__: is a reserved key'));
      },
    });
    try {
      this.value = faults.length === 0 ? document.toJS({ maxAliasCount: 100 }) : undefined;
    } catch (error) {
      // Aliases that would grow beyond all bounds.
      faults.push(this.#at(0, (error as Error).message));
    }
    this.syntaxFaults = faults;
  }

  /** A fault of the value at a path, or of the nearest one above it that exists. */
  fault(path: Path, message: string): Fault {
    return this.#at(this.#find(path)?.value.range?.[0] ?? 0, `${path.join('.') || 'the plan'}: ${message}`);
  }

  /** A fault of the key that a path ends with. */
  keyFault(path: Path, message: string): Fault {
    const found = this.#find(path);
    const node = found?.key ?? found?.value;
    return this.#at(node?.range?.[0] ?? 0, `${path.join('.')}: ${message}`);
  }

  /** What a schema found, one fault each. */
  schemaFaults(issues: readonly z.core.$ZodIssue[]): Fault[] {
    return issues.flatMap((issue) => {
      const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
      if (issue.code !== 'unrecognized_keys') return [this.fault(path, issue.message)];
      return issue.keys.map((key) => this.keyFault([...path, key], 'is not a key that belongs here'));
    });
  }

  #at(offset: number, message: string): Fault {
    const { line, col } = this.#lines.linePos(offset);
    // Nothing at all is at the beginning.
    return { line: Math.max(1, line), column: Math.max(1, col), message };
  }

  #find(path: Path): { key?: Node; value: Node } | undefined {
    if (!this.#root) return undefined;
    let found: { key?: Node; value: Node } = { value: this.#root };
    for (const step of path) {
      const next = memberOf(found.value, step);
      if (!next) return found;
      found = next;
    }
    return found;
  }
}

function memberOf(node: Node, step: string | number): { key?: Node; value: Node } | undefined {
  if (isSeq(node)) {
    const item = node.items[Number(step)];
    return item ? { value: item as Node } : undefined;
  }
  if (!isMap(node)) return undefined;
  const pair = (node.items as Pair<Node, Node | null>[]).find(
    ({ key }) => isScalar(key) && String(key.value) === String(step),
  );
  return pair && { key: pair.key, value: pair.value ?? pair.key };
}
