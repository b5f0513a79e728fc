import type { ComponentChildren } from 'preact';

/** A part of a view with a head. */
export function Part({ title, note, children }: { title: string; note?: string; children: ComponentChildren }) {
  return (
    <section class="part">
      <h3>
        {title}
        {note !== undefined && <span class="dim"> {note}</span>}
      </h3>
      {children}
    </section>
  );
}

/** Names and values; those without a value are left out. */
export function Pairs({ rows }: { rows: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="pairs">
      {rows
        .filter(([, value]) => value !== null && value !== undefined && value !== '')
        .map(([name, value]) => (
          <div key={name}>
            <dt class="dim">{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A table with its column heads. */
export function Grid({
  label,
  columns,
  children,
}: {
  label: string;
  columns: readonly string[];
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
