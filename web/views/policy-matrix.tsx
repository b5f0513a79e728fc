import type { SandboxCell, TierCell } from '../../src/node/control/policy-rows.js';
import { deviceName } from '../parts/facts.js';
import { Section } from '../parts/table.js';
import { POLICY_TEXT } from '../text/policy.js';

const MARKS = { yes: ['●', 'good'], partly: ['▲', 'warn'], no: ['✕', 'bad'] } as const;

function Mark({ kind, title, children }: { kind: keyof typeof MARKS; title?: string | undefined; children: string }) {
  const [mark, tone] = MARKS[kind];
  return (
    <td title={title}>
      <span class={tone}>
        <span aria-hidden="true">{mark}</span> {children}
      </span>
    </td>
  );
}

/** The decisions of the router's own rules, tier by tier. */
export function TierMatrix({ cells }: { cells: readonly TierCell[] }) {
  const text = POLICY_TEXT.tiers;
  const tiers = [...new Set(cells.map(({ from }) => from))];
  return (
    <Section title={text.title}>
      <p class="dim">{text.about}</p>
      <div class="scrolls">
        <table class="matrix" aria-label={text.label}>
          <thead>
            <tr>
              <th scope="col">{text.from}</th>
              {tiers.map((tier) => (
                <th key={tier} scope="col" class="mono">
                  {text.tier(tier)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {tiers.map((from) => (
              <tr key={from}>
                <th scope="row" class="mono">
                  {text.tier(from)}
                </th>
                {cells
                  .filter((cell) => cell.from === from)
                  .map(({ to, request, proposal }) => {
                    if (!request.allowed) {
                      return (
                        <Mark key={to} kind="no" title={`${request.code}: ${request.reason}`}>
                          {text.no}
                        </Mark>
                      );
                    }
                    return proposal.allowed ? (
                      <Mark key={to} kind="yes">
                        {text.yes}
                      </Mark>
                    ) : (
                      <Mark key={to} kind="partly" title={`${proposal.code}: ${proposal.reason}`}>
                        {text.justified}
                      </Mark>
                    );
                  })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** Which agents are within reach of each sandbox of this node. */
export function SandboxMatrix({ cells }: { cells: readonly SandboxCell[] }) {
  const text = POLICY_TEXT.sandboxes;
  if (cells.every(({ from, to }) => from === null && to === null)) {
    return (
      <Section title={text.title}>
        <p class="dim">
          {text.none} <code>{text.noneKey}</code>.
        </p>
      </Section>
    );
  }
  const sources = [...new Set(cells.map(({ from }) => from))];
  const targets = cells.filter(({ from }) => from === sources[0]);
  return (
    <Section title={text.title}>
      <p class="dim">{text.about}</p>
      <div class="scrolls">
        <table class="matrix" aria-label={text.label}>
          <thead>
            <tr>
              <th scope="col">{POLICY_TEXT.tiers.from}</th>
              {targets.map(({ to, node }) => (
                <th key={`${to} ${node}`} scope="col">
                  {to ?? text.outside} {node !== null && text.on(deviceName(node))}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sources.map((from) => (
              <tr key={from}>
                <th scope="row">{from ?? text.outside}</th>
                {cells
                  .filter((cell) => cell.from === from)
                  .map(({ to, node, agents, reached, some }) => (
                    <Mark
                      key={`${to} ${node}`}
                      kind={reached === agents ? 'yes' : reached === 0 ? 'no' : 'partly'}
                      title={some.join(', ') || undefined}
                    >
                      {reached === agents ? text.all : reached === 0 ? text.noAgent : text.some(reached, agents)}
                    </Mark>
                  ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
