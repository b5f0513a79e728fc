import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Rows above and below the visible part, so that scrolling shows no gap. */
const AROUND = 10;

/** A list of rows of one height, of which only the visible ones are in the document. */
export function Rows<T>({
  rows,
  height,
  label,
  keyOf,
  children,
}: {
  rows: readonly T[];
  height: number;
  label: string;
  keyOf: (row: T) => string;
  children: (row: T) => ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, size: 800 });
  useLayoutEffect(() => {
    const element = box.current!;
    const look = () => setSeen({ top: element.scrollTop, size: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', look);
    };
  }, []);
  const first = Math.max(0, Math.floor(seen.top / height) - AROUND);
  const last = Math.min(rows.length, Math.ceil((seen.top + seen.size) / height) + AROUND);
  const list = useRef<HTMLOListElement>(null);
  useLayoutEffect(() => {
    list.current!.style.height = `${rows.length * height}px`;
    list.current!.style.paddingTop = `${first * height}px`;
  });
  return (
    <div class="rows" ref={box}>
      <ol ref={list} aria-label={label}>
        {rows.slice(first, last).map((row, at) => (
          <li key={keyOf(row)} aria-setsize={rows.length} aria-posinset={first + at + 1}>
            {children(row)}
          </li>
        ))}
      </ol>
    </div>
  );
}
