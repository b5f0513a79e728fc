import type { ComponentChildren } from 'preact';
import { href } from '../route.js';
import { PARTS_TEXT } from '../text/parts.js';
import { TEXT } from '../text.js';

/** A table of facts with its column heads. On a narrow screen each row becomes a few lines. */
export function Table({
  columns,
  label,
  children,
}: {
  columns: readonly string[];
  label: string;
  children: ComponentChildren;
}) {
  return (
    <table aria-label={label}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

/** Facts about one thing, with their names. Facts without a value are left out. */
export function Facts({ rows }: { rows: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {rows
        .filter(([, value]) => value !== null && value !== undefined && value !== false && value !== '')
        .map(([name, value]) => (
          <div key={name}>
            <dt class="dim">{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A part of a detail view, with its head. */
export function Section({
  title,
  note,
  children,
}: {
  title: string;
  note?: string | undefined;
  children: ComponentChildren;
}) {
  return (
    <section class="section">
      <h3>
        {title}
        {note !== undefined && <span class="dim"> {note}</span>}
      </h3>
      {children}
    </section>
  );
}

/** The head of a detail: the way back to the list, and its name with what matters most. */
export function Crumb({
  place,
  title,
  children,
}: {
  place: keyof typeof TEXT.places;
  title?: string | undefined;
  children?: ComponentChildren;
}) {
  return (
    <div class="crumb">
      <a href={href(place)}>{PARTS_TEXT.back(TEXT.places[place])}</a>
      {title !== undefined && (
        <>
          <span class="dim" aria-hidden="true">
            /
          </span>
          <h3>{title}</h3>
        </>
      )}
      {children}
    </div>
  );
}
