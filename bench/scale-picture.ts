/** One mesh that was measured. Figures of a node are averages. */
export interface Measured {
  readonly network: 'p2p' | 'nats';
  readonly nodes: number;
  readonly everyCardMs: number;
  readonly cpuMs: number;
  readonly memoryKiB: number;
  readonly links: number;
  readonly idleFrames: number;
  readonly idleKiB: number;
}

interface Panel {
  readonly title: string;
  readonly of: (measured: Measured) => number;
}

const PANELS: readonly Panel[] = [
  { title: 'until every node knows every card, s', of: ({ everyCardMs }) => everyCardMs / 1_000 },
  { title: 'CPU of a node until then, ms', of: ({ cpuMs }) => cpuMs },
  { title: 'memory that a node gains, KiB', of: ({ memoryKiB }) => memoryKiB },
  { title: 'sent by an idle node, KiB a minute', of: ({ idleKiB }) => idleKiB },
];
const NETWORKS = [
  { network: 'p2p', label: 'peer to peer (private DHT)' },
  { network: 'nats', label: 'NATS' },
] as const;

const [WIDTH, HEIGHT] = [320, 180];
const PLOT = { left: 48, right: 16, top: 34, bottom: 30 };

const STYLE = `text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}.page{fill:#fff}
.axis{stroke:#d0d7de}.line{fill:none;stroke-width:2}.p2p{stroke:#0969da}.nats{stroke:#bc4c00}.dot.p2p{fill:#0969da}.dot.nats{fill:#bc4c00}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.axis{stroke:#3d444d}.p2p{stroke:#58a6ff}.nats{stroke:#f0883e}
.dot.p2p{fill:#58a6ff}.dot.nats{fill:#f0883e}}`;

/** Draws how the cost of a node grows with the mesh, as SVG. */
export function picture(measured: readonly Measured[]): string {
  const panels = PANELS.map((panel, index) => {
    const [x, y] = [(index % 2) * WIDTH, Math.floor(index / 2) * HEIGHT];
    return `<g transform="translate(${x} ${y})">${draw(panel, measured)}</g>`;
  });
  const height = 2 * HEIGHT + 28;
  const legend = NETWORKS.map(({ network, label }, index) => {
    const x = PLOT.left + index * 220;
    const y = height - 12;
    return `<path class="line ${network}" d="M${x} ${y - 4}h24"/><text x="${x + 30}" y="${y}">${label}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${2 * WIDTH} ${height}" role="img">`,
    `<title>Cost of a node by the number of nodes</title><style>${STYLE}</style>`,
    `<rect class="page" width="100%" height="100%"/>`,
    ...panels,
    ...legend,
    '</svg>\n',
  ].join('\n');
}

function draw({ title, of }: Panel, measured: readonly Measured[]): string {
  const most = {
    nodes: Math.max(...measured.map(({ nodes }) => nodes)),
    value: ceiling(Math.max(...measured.map(of))),
  };
  const x = (nodes: number) => PLOT.left + (nodes / most.nodes) * (WIDTH - PLOT.left - PLOT.right);
  const y = (value: number) => HEIGHT - PLOT.bottom - (value / most.value) * (HEIGHT - PLOT.top - PLOT.bottom);
  const parts = [`<text class="title" x="${PLOT.left}" y="20">${title}</text>`];
  for (const value of [0, most.value / 2, most.value]) {
    parts.push(`<path class="axis" d="M${PLOT.left} ${y(value)}H${WIDTH - PLOT.right}"/>`);
    parts.push(`<text x="${PLOT.left - 6}" y="${y(value) + 4}" text-anchor="end">${value}</text>`);
  }
  for (const nodes of new Set(measured.map((each) => each.nodes))) {
    parts.push(`<text x="${x(nodes)}" y="${HEIGHT - 10}" text-anchor="middle">${nodes}</text>`);
  }
  for (const { network } of NETWORKS) {
    const points = measured.filter((each) => each.network === network);
    const at = points.map((each) => `${x(each.nodes).toFixed(1)},${y(of(each)).toFixed(1)}`);
    parts.push(`<polyline class="line ${network}" points="${at.join(' ')}"/>`);
    for (const point of at) {
      const [cx, cy] = point.split(',');
      parts.push(`<circle class="dot ${network}" cx="${cx}" cy="${cy}" r="3"/>`);
    }
  }
  return parts.join('\n');
}

/** The next 1, 2 or 5 with zeros. */
function ceiling(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].find((step) => step * unit >= value)! * unit;
}
