import { applyEdits, findNodeAtLocation, type JSONPath, modify, parseTree } from 'jsonc-parser';

export interface EditOptions {
  /** Put the value before the element at the path's end, instead of in its place. */
  readonly isArrayInsertion?: boolean;
}

/**
 * Sets or, with `undefined`, removes what is at a path. Only that is written: `modify` with formatting would lay out
 * whatever stands on the same lines, so only the new text is laid out here.
 */
export function editJson(text: string, path: JSONPath, value: unknown, options: EditOptions = {}): string {
  if (value === undefined) return without(text, path);
  const [edit] = modify(text, [...path], value, options);
  if (!edit) return text;
  const content = laidOut(text, edit.offset, edit.length, edit.content);
  return applyEdits(text, [{ ...edit, content }]);
}

/** `modify` takes too little or too much out of arrays that stand on one line, so this finds the place by the tree. */
function without(text: string, path: JSONPath): string {
  const root = parseTree(text, [], { allowTrailingComma: true });
  const node = root && findNodeAtLocation(root, path);
  const member = node?.parent?.type === 'property' ? node.parent : node;
  const siblings = member?.parent?.children;
  if (!member || !siblings) return text;
  const at = siblings.indexOf(member);
  const [previous, next] = [siblings[at - 1], siblings[at + 1]];
  const end = member.offset + member.length;
  if (previous) return cut(text, previous.offset + previous.length, end);
  if (next) return cut(text, member.offset, next.offset);
  const comma = /^\s*,/.exec(text.slice(end))?.[0].length ?? 0;
  return cut(text, member.parent!.offset + 1, end + comma);
}

function cut(text: string, from: number, to: number): string {
  return text.slice(0, from) + text.slice(to);
}

/** In the file's own style, where the file spreads such things over lines. */
function laidOut(text: string, offset: number, length: number, content: string): string {
  const before = text.slice(0, offset);
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const [, comma, body, trailing] = /^(,?)([\s\S]*?)(,?)$/.exec(content)!;
  const line = before.slice(before.lastIndexOf('\n') + 1);
  const indent = /^[ \t]*/.exec(line)![0];
  const unit = /^([ \t]+)\S/m.exec(text)?.[1] ?? '  ';
  if (length > 0) return indented(body!, indent, unit, eol);
  const opensHere = /[{[]\s*$/.test(before);
  const spread = opensHere ? before.includes('\n') || text.slice(offset).includes('\n') : opensLine(text, offset);
  if (!spread) return `${comma}${comma ? ' ' : ''}${body}${trailing}`;
  const inner = opensHere ? indent + unit : indent;
  const closes = opensHere && !/^[^\S\n]*\r?\n/.test(text.slice(offset)) && trailing === '' ? eol + indent : '';
  return `${comma}${eol}${inner}${indented(body!, inner, unit, eol)}${trailing}${closes}`;
}

/** Does the member that ends here begin its own line? */
function opensLine(text: string, offset: number): boolean {
  const root = parseTree(text, [], { allowTrailingComma: true });
  const ends = (node: typeof root): typeof root => {
    const inside = node?.children?.map(ends).find((found) => found !== undefined);
    const whole = node && (node.type === 'property' || node.parent?.type === 'array');
    return whole && node.offset + node.length === offset ? node : inside;
  };
  const member = ends(root);
  return member !== undefined && /(^|\n)[ \t]*$/.test(text.slice(0, member.offset));
}

/** `"key":value` or a value, over several lines. */
function indented(body: string, indent: string, unit: string, eol: string): string {
  const [, key = '', json] = /^("(?:[^"\\]|\\.)*"\s*:\s*)?([\s\S]*)$/.exec(body)!;
  const value = JSON.stringify(JSON.parse(json!), null, unit).replaceAll('\n', `${eol}${indent}`);
  return `${key.replace(/\s*:\s*$/, ': ')}${value}`;
}
