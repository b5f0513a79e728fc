/** Characters that would change the order in which a text is shown, and control characters beyond ASCII. */
const DECEPTIVE = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u007f-\u009f]/g;
/** An escape in JSON text. Only line feed, tab and carriage return are left of the control characters. */
const ESCAPE = /\\(u[0-9a-f]{4}|.)/gi;
const CONTROL = /^(u00[01][0-9a-f]|u007f|u00[89][0-9a-f]|u061c|u200[ef]|u202[a-e]|u206[6-9]|[bf])$/i;
const ALLOWED = /^u000[9ad]$/i;

/**
 * Parses JSON of the node. Agents wrote the texts in it: characters with which they could make a text look like another one
 * become replacement characters, as in the terminal.
 */
export function parsePlain(json: string): unknown {
  const plain = json
    .replace(DECEPTIVE, '\ufffd')
    .replace(ESCAPE, (found, code: string) => (CONTROL.test(code) && !ALLOWED.test(code) ? '\\ufffd' : found));
  return JSON.parse(plain);
}
