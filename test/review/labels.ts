/** A finding in a package, with the judgement of a person who read the code. */
interface Label {
  readonly finding: string;
  readonly isTrue: boolean;
  /** Why. */
  readonly read: string;
}

/** Packages that `package.json` pins, and everything that a review finds in them. */
export const labels: readonly {
  readonly name: string;
  readonly version: string;
  readonly findings: readonly Label[];
}[] = [
  { name: 'express', version: '5.1.0', findings: [] },
  {
    name: 'kysely',
    version: '0.28.18',
    findings: [
      {
        finding: 'import/cycle dist/esm/dynamic/dynamic-table-builder.js:5',
        isTrue: true,
        read: 'parser/table-parser.js → expression-parser.js → … → dynamic-table-builder.js; all are calls at run time',
      },
      {
        finding: 'import/cycle dist/esm/operation-node/delete-query-node.js:5',
        isTrue: true,
        read: 'query-node.js imports delete-query-node.js for its guard, and the other way round',
      },
      {
        finding: 'import/cycle dist/cjs/dynamic/dynamic-table-builder.js:8',
        isTrue: true,
        read: 'the same in the other format',
      },
      {
        finding: 'import/cycle dist/cjs/operation-node/delete-query-node.js:7',
        isTrue: true,
        read: 'the same in the other format',
      },
    ],
  },
  {
    name: 'preact',
    version: '11.2.0',
    findings: [
      {
        finding: 'import/cycle src/component.js:9',
        isTrue: true,
        read: 'diff/index.js imports BaseComponent, component.js imports diff',
      },
      {
        finding: 'import/cycle compat/src/index.js:36',
        isTrue: true,
        read: 'render.js imports hooks from index.js, which exports render',
      },
    ],
  },
];
