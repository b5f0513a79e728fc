import { describe, expect, it } from 'vitest';
import type { Overview } from '../coding-agents/overview.js';
import type { WaitingItem } from '../http/dashboard/facts.js';
import type { TailEvent } from '../node/control/api.js';
import type { AgentRow } from '../node/control/rows.js';
import { messageLine } from './message-line.js';
import { screenRows } from './watch-screen.js';

const NO_CODING: Overview = { agents: [], tasks: [], leases: [], held: [], forYou: [] };

function item(n: number, about: Partial<WaitingItem> = {}): WaitingItem {
  const usual = { kind: 'approval', from: 'mars', details: [], diff: [], node: null, answer: null } as const;
  return {
    ...usual,
    actions: ['allow-once', 'deny'],
    id: `approval:${n}`,
    since: 0,
    until: null,
    title: `edit file ${n}`,
    ...about,
  };
}

function agent(id: string, state: string, reason: string | null = null): AgentRow {
  const about = { name: id, tier: 2 as const, capabilities: [], sandbox: null, origin: 'local', node: null } as const;
  return { ...about, id, description: '', state, failure: null, reason } as unknown as AgentRow;
}

describe('the screen of watch', () => {
  it('shows what waits with the line that answers it, agents by state, refusals and messages [FC.47]', () => {
    const letter = { id: '7', from: 'alice', needs: 'reply' as const, text: 'Which one?' };
    const mail = item(7, {
      id: 'mail:7',
      kind: 'mail',
      from: 'alice',
      title: 'Which one?',
      actions: ['reply', 'done'],
    });
    const rows = screenRows(
      {
        waiting: [item(1), mail],
        missing: [{ node: 'k', name: 'laptop', since: 0, reason: 'away' }],
        agents: [agent('sun', 'ready'), agent('mars', 'degraded', 'its model is away'), agent('venus', 'ready')],
        coding: { ...NO_CODING, forYou: [letter] },
        refused: ['10:00:00 a → b ✕ TIER_VIOLATION'],
        messages: ['10:00:00 sun → mars request 1 ✓'],
      },
      { now: 125_000, height: 40 },
    );
    expect(rows).toEqual([
      'for you: 2; see: ecliptic waiting',
      '  ▲ 2m  mars: edit file 1',
      '      ecliptic waiting answer approval:1 allow-once | deny',
      '  ▲ 2m  alice (needs reply): Which one?',
      '      ecliptic waiting answer mail:7 reply TEXT | done',
      '  ◌ laptop does not answer; its items may be missing',
      '',
      'agents: 2 ready, 1 degraded',
      '  mars is degraded: its model is away',
      '',
      'refused:',
      '  10:00:00 a → b ✕ TIER_VIOLATION',
      '',
      'messages:',
      '  10:00:00 sun → mars request 1 ✓',
    ]);
  });

  it('fits the terminal, and gives messages the room that is left [FC.47]', () => {
    const messages = Array.from({ length: 200 }, (_, n) => `message ${n}`);
    const view = { waiting: [], missing: [], agents: [], coding: NO_CODING, refused: [], messages };
    const rows = screenRows(view, { now: 0, height: 23 });
    expect(rows).toHaveLength(23);
    expect(rows.at(-1)).toBe('  message 199');
    const waiting = Array.from({ length: 100 }, (_, n) => item(n));
    expect(screenRows({ ...view, waiting }, { now: 0, height: 23 }).length).toBeLessThanOrEqual(23);
    expect(screenRows({ ...view, waiting }, { now: 0, height: 23 })).toContain('  and 92 more');
  });
});

describe('the line of a message', () => {
  const event = { type: 'routing-decision', sender: 'sun', recipient: 'mars', messageType: 'request', timestamp: 0 };

  it('has an excerpt of the payload and the verdict [FC.48]', () => {
    const delivered = { ...event, payload: 'build login', duration: 0.42, routingPath: 'local' } as TailEvent;
    expect(messageLine(delivered)).toBe('00:00:00 sun → mars request "build login" ✓ 0.4 ms');
    expect(messageLine({ ...delivered, duration: 0.0042 })).toContain('✓ 4 µs');
    expect(messageLine({ ...delivered, duration: 1_500 })).toContain('✓ 1.5 s');
    const refused = { ...event, code: 'TIER_VIOLATION', reason: 'too high' } as TailEvent;
    expect(messageLine(refused)).toBe('00:00:00 sun → mars request ✕ TIER_VIOLATION: too high');
  });

  it('has no control character, whatever the payload is [FC.48]', () => {
    const payload = 'a\u001b[2J\u009b31m\u202eb\nfake: line';
    const line = messageLine({ ...event, payload, duration: 1, recipient: 'x\u001b' } as TailEvent);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
    expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
  });
});
