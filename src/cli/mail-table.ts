import type { MailRow } from '../node/control/rows.js';
import { cutText } from '../runtime/text.js';
import type { Output } from './output.js';

/** All of a list that comes in pages. */
export async function allMail(next: (after: number) => Promise<MailRow[]>): Promise<MailRow[]> {
  const rows: MailRow[] = [];
  for (let page = await next(0); page.length > 0; page = await next(page.at(-1)!.number)) rows.push(...page);
  return rows;
}

/** Durable messages as a table. */
export function mailTable(output: Output, rows: readonly MailRow[], none: string): void {
  output.table(
    rows,
    ['ID', 'FROM', 'TO', 'TYPE', 'STATE', 'SINCE', 'PAYLOAD'],
    rows.map((row) => [
      row.id,
      short(row.from),
      short(row.to),
      row.type,
      row.state,
      new Date(row.at).toISOString().slice(0, 19),
      cutText(JSON.stringify(row.payload), 60),
    ]),
    none,
  );
}

/** An address with its node's key cut to what a person can compare. */
export function short(address: string): string {
  return address.replace(/@([0-9a-f]{12})[0-9a-f]+$/, '@$1');
}
