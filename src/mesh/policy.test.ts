import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbMessageType, arbSandboxConfig, arbTier, arbTierPair } from '../../test/generators.js';
import { startMesh } from '../../test/mesh-fixture.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { EnvelopeFactory } from './envelope.js';
import { type Party, Policy } from './policy.js';
import { AgentRegistry } from './registry.js';
import type { A2AMessageType, AgentTier, SandboxRoutingConfig } from './schemas.js';
import { DEFAULT_TIER_ASSIGNMENTS, DEFAULT_TIER_RULES, defaultTier } from './tier-config.js';

type Verdict = 'ok' | 'TIER_VIOLATION' | 'SANDBOX_VIOLATION' | 'ESCALATION_REQUIRED';

const TIERS: readonly AgentTier[] = [0, 1, 2, 3];

const TYPES: readonly A2AMessageType[] = [
  'request',
  'response',
  'notification',
  'task-proposal',
  'task-accept',
  'task-reject',
  'stream-start',
  'stream-data',
  'stream-end',
  'error',
];

/** What opens a conversation, by source tier; a row has one cell for each target tier. */
const OPENING: readonly (readonly Verdict[])[] = [
  ['ok', 'ok', 'ok', 'ok'],
  ['ok', 'ok', 'TIER_VIOLATION', 'TIER_VIOLATION'],
  ['ok', 'ok', 'ok', 'TIER_VIOLATION'],
  ['ok', 'ok', 'ok', 'ok'],
];

/** The same for a proposal that says nothing of why it goes over the recipient's rank. */
const UNJUSTIFIED_PROPOSAL: readonly (readonly Verdict[])[] = [
  ['ok', 'ok', 'ok', 'ok'],
  ['ok', 'ok', 'TIER_VIOLATION', 'TIER_VIOLATION'],
  ['ESCALATION_REQUIRED', 'ESCALATION_REQUIRED', 'ok', 'TIER_VIOLATION'],
  ['ESCALATION_REQUIRED', 'ESCALATION_REQUIRED', 'ok', 'ok'],
];

const JUSTIFICATIONS: readonly { text: string | undefined; justified: boolean }[] = [
  { text: undefined, justified: false },
  { text: '', justified: false },
  { text: ' \t\n', justified: false },
  { text: 'the disk is on fire', justified: true },
];

interface Relation {
  name: string;
  source?: string;
  target?: string;
  config: SandboxRoutingConfig;
  passes: boolean;
}

const RELATIONS: readonly Relation[] = [
  { name: 'neither is sandboxed', config: { enforced: true }, passes: true },
  { name: 'the same sandbox', source: 'red', target: 'red', config: { enforced: true }, passes: true },
  { name: 'another sandbox', source: 'red', target: 'blue', config: { enforced: true }, passes: false },
  { name: 'from a sandbox to outside', source: 'red', config: { enforced: true }, passes: false },
  { name: 'only the target is sandboxed', target: 'blue', config: { enforced: true }, passes: true },
  {
    name: 'allowed for that sandbox',
    source: 'red',
    target: 'blue',
    config: { enforced: true, allow: { red: ['target'] } },
    passes: true,
  },
  {
    name: 'allowed for every sandbox',
    source: 'red',
    target: 'blue',
    config: { enforced: true, crossSandboxAllowList: ['target'] },
    passes: true,
  },
  {
    name: 'allowed for another sandbox',
    source: 'red',
    target: 'blue',
    config: { enforced: true, allow: { green: ['target'], blue: ['target'] } },
    passes: false,
  },
  {
    name: 'another agent is allowed',
    source: 'red',
    target: 'blue',
    config: { enforced: true, allow: { red: ['source', 'targe'] }, crossSandboxAllowList: ['targets'] },
    passes: false,
  },
  { name: 'not enforced', source: 'red', target: 'blue', config: { enforced: false }, passes: true },
];

const factory = new EnvelopeFactory(new SimulatedRuntime());

interface Question {
  type?: A2AMessageType;
  inReply?: boolean;
  justification?: string;
}

function party(address: string, tier: AgentTier, sandboxId?: string): Party {
  const node = address.split('@')[1];
  return { address, node, tier, sandboxId };
}

function judge(policy: Policy, source: Party, target: Party, question: Question = {}): Verdict {
  const { type = 'notification', inReply = false, justification } = question;
  const metadata = justification === undefined ? undefined : { escalationJustification: justification };
  const [sender, recipient] = [source.address, target.address];
  const envelope = factory.create({ sender, recipient, type, payload: null, metadata });
  const decision = policy.judge(envelope, source, target, inReply);
  return decision.allowed ? 'ok' : decision.code;
}

function withSandbox(config: SandboxRoutingConfig): Policy {
  const policy = new Policy();
  policy.setSandboxConfig(config);
  return policy;
}

/** Every case of one source tier that is not judged as the tables above say. */
function misjudged(sourceTier: AgentTier): { wrong: string[]; cases: number } {
  const wrong: string[] = [];
  let cases = 0;
  for (const relation of RELATIONS) {
    const policy = withSandbox(relation.config);
    const source = party('source', sourceTier, relation.source);
    for (const targetTier of TIERS) {
      const target = party('target', targetTier, relation.target);
      for (const type of TYPES) {
        for (const { text: justification, justified } of JUSTIFICATIONS) {
          for (const inReply of [false, true]) {
            const table = type === 'task-proposal' && !justified ? UNJUSTIFIED_PROPOSAL : OPENING;
            const opening = inReply ? 'ok' : table[sourceTier]![targetTier]!;
            const expected = relation.passes ? opening : 'SANDBOX_VIOLATION';
            const verdict = judge(policy, source, target, { type, inReply, justification });
            cases++;
            if (verdict === expected) continue;
            const how = `${inReply ? 'reply' : 'opening'}, justification ${JSON.stringify(justification)}`;
            wrong.push(`L${sourceTier} to L${targetTier}, ${type}, ${relation.name}, ${how}: ${verdict}`);
          }
        }
      }
    }
  }
  return { wrong, cases };
}

describe('the policy table', () => {
  it('judges every message from L0 as written [R4.5 P16 E.SANDBOX_VIOLATION]', () => {
    expect(misjudged(0)).toEqual({ wrong: [], cases: 3_200 });
  });

  it('judges every message from L1 as written [R4.5 P16 E.TIER_VIOLATION E.SANDBOX_VIOLATION]', () => {
    expect(misjudged(1)).toEqual({ wrong: [], cases: 3_200 });
  });

  it('judges every message from L2 as written [R4.5 R11.2 P16 E.TIER_VIOLATION E.ESCALATION_REQUIRED]', () => {
    expect(misjudged(2)).toEqual({ wrong: [], cases: 3_200 });
  });

  it('judges every message from L3 as written [R4.5 R11.2 P16 E.ESCALATION_REQUIRED]', () => {
    expect(misjudged(3)).toEqual({ wrong: [], cases: 3_200 });
  });
});

describe('the tier rules', () => {
  it('Feature: a2a-mcp-protocols, Property 16: Tier-based routing enforcement [P16 R4.5 R11.2 GEN.arbTierPair]', async () => {
    await fc.assert(
      fc.asyncProperty(
        arbTierPair(),
        arbMessageType(),
        fc.option(fc.string({ maxLength: 20 }), { nil: undefined }),
        async ({ source, target }, type, justification) => {
          const mesh = await startMesh();
          mesh.join('source', { tier: source });
          mesh.join('target', { tier: target });
          const metadata = justification === undefined ? undefined : { escalationJustification: justification };
          const result = await mesh.send('source', 'target', { type, metadata });

          const unjustified = type === 'task-proposal' && (justification ?? '').trim() === '';
          const expected = (unjustified ? UNJUSTIFIED_PROPOSAL : OPENING)[source]![target]!;
          expect(result.error ?? 'ok').toBe(expected);
          expect(result.delivered).toBe(expected === 'ok');
          expect(mesh.inbox('target')).toHaveLength(expected === 'ok' ? 1 : 0);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('refuse with a security event that says which rule was broken [E.TIER_VIOLATION E.ESCALATION_REQUIRED]', async () => {
    const mesh = await startMesh();
    mesh.join('strategist', { tier: 1 });
    mesh.join('specialist', { tier: 3 });
    const downward = await mesh.send('strategist', 'specialist');
    const upward = await mesh.send('specialist', 'strategist', { type: 'task-proposal' });
    expect([downward.error, upward.error]).toEqual(['TIER_VIOLATION', 'ESCALATION_REQUIRED']);
    expect(mesh.eventsOf('security').map(({ code, sender, recipient }) => ({ code, sender, recipient }))).toEqual([
      { code: 'TIER_VIOLATION', sender: 'strategist', recipient: 'specialist' },
      { code: 'ESCALATION_REQUIRED', sender: 'specialist', recipient: 'strategist' },
    ]);
  });

  it('follow the configuration that was set last [R4.5 R11.2]', () => {
    const policy = new Policy();
    policy.setTierConfig({
      rules: [
        { sourceTier: 1, allowedTargetTiers: [3], requiresEscalationJustification: true },
        { sourceTier: 2, allowedTargetTiers: [0], requiresEscalationJustification: false },
      ],
    });
    const verdicts = TIERS.map((source) =>
      TIERS.map((target) => judge(policy, party('a', source), party('b', target), { type: 'task-proposal' })),
    );
    expect(verdicts).toEqual([
      ['TIER_VIOLATION', 'TIER_VIOLATION', 'TIER_VIOLATION', 'TIER_VIOLATION'],
      ['TIER_VIOLATION', 'TIER_VIOLATION', 'TIER_VIOLATION', 'ok'],
      ['ok', 'TIER_VIOLATION', 'TIER_VIOLATION', 'TIER_VIOLATION'],
      ['TIER_VIOLATION', 'TIER_VIOLATION', 'TIER_VIOLATION', 'TIER_VIOLATION'],
    ]);
  });

  it('keep the sandbox rules when they change, and the other way round [R4.5 R10.1]', () => {
    const policy = withSandbox({ enforced: true, allow: { red: ['friend'] } });
    policy.setTierConfig({
      rules: [{ sourceTier: 1, allowedTargetTiers: [3], requiresEscalationJustification: false }],
    });
    expect(judge(policy, party('a', 1, 'red'), party('friend', 3))).toBe('ok');
    expect(judge(policy, party('a', 1, 'red'), party('stranger', 3))).toBe('SANDBOX_VIOLATION');
    policy.setSandboxConfig({ enforced: true, allow: { red: ['stranger'] } });
    expect(judge(policy, party('a', 1, 'red'), party('stranger', 3))).toBe('ok');
    expect(judge(policy, party('a', 1, 'red'), party('friend', 3))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('a', 1), party('friend', 1))).toBe('TIER_VIOLATION');
  });

  it('refuse a bad configuration and leave the old one in force [R4.5]', () => {
    const policy = new Policy();
    const rule = { sourceTier: 1, allowedTargetTiers: [3], requiresEscalationJustification: false } as const;
    policy.setTierConfig({ rules: [{ ...rule, allowedTargetTiers: [3] }] });
    const bad: unknown[] = [
      null,
      'all',
      {},
      { rules: 'none' },
      { rules: [{ ...rule, sourceTier: 4 }] },
      { rules: [{ ...rule, sourceTier: '1' }] },
      { rules: [{ ...rule, allowedTargetTiers: [0, 7] }] },
      { rules: [{ ...rule, allowedTargetTiers: undefined }] },
      { rules: [{ ...rule, requiresEscalationJustification: 'yes' }] },
      { rules: [rule, rule] },
    ];
    for (const config of bad) {
      expect(() => policy.setTierConfig(config as never)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
      expect(judge(policy, party('a', 1), party('b', 3))).toBe('ok');
      expect(judge(policy, party('a', 1), party('b', 1))).toBe('TIER_VIOLATION');
    }
  });

  it('stay as they were set when the caller changes its own object afterwards [R4.5]', () => {
    const policy = new Policy();
    const allowedTargetTiers: AgentTier[] = [0, 1];
    policy.setTierConfig({ rules: [{ sourceTier: 1, allowedTargetTiers, requiresEscalationJustification: false }] });
    allowedTargetTiers.push(3);
    policy.setSandboxConfig({ enforced: true });
    expect(judge(policy, party('a', 1), party('b', 3))).toBe('TIER_VIOLATION');
  });
});

describe('the sandbox rules', () => {
  it('are asked before the tier rules, for L0 and for replies too [E.SANDBOX_VIOLATION R10.1]', () => {
    const policy = new Policy();
    const outside = (tier: AgentTier) => party('outside', tier);
    expect(judge(policy, party('a', 1, 'red'), outside(3))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('a', 3, 'red'), outside(0), { type: 'task-proposal' })).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('a', 0, 'red'), outside(3))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('a', 3, 'red'), outside(3), { type: 'response', inReply: true })).toBe(
      'SANDBOX_VIOLATION',
    );
  });

  it('do not lift the tier rules inside a sandbox [R4.5 R10.1]', () => {
    expect(judge(new Policy(), party('a', 1, 'red'), party('b', 3, 'red'))).toBe('TIER_VIOLATION');
  });

  it('take a name on another node for another sandbox [R10.1]', () => {
    const policy = new Policy();
    expect(judge(policy, party('a', 3, 'red'), party('b@far', 3, 'red'))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('b@far', 3, 'red'), party('a', 3, 'red'))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('b@far', 3, 'red'), party('c@away', 3, 'red'))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('b@far', 3, 'red'), party('c@far', 3, 'red'))).toBe('ok');
  });

  it('take a shared sandbox for one on all nodes [R10.1]', () => {
    const policy = withSandbox({ enforced: true, shared: ['red'], allow: { red: ['friend'], blue: ['friend'] } });
    expect(judge(policy, party('a', 3, 'red'), party('b@far', 3, 'red'))).toBe('ok');
    expect(judge(policy, party('b@far', 3, 'red'), party('a', 3, 'red'))).toBe('ok');
    expect(judge(policy, party('b@far', 3, 'red'), party('friend', 3))).toBe('ok');
    expect(judge(policy, party('a', 3, 'blue'), party('b@far', 3, 'blue'))).toBe('SANDBOX_VIOLATION');
  });

  it('do not lend the allow list of a local sandbox to another node’s of the same name [R10.1]', () => {
    const policy = withSandbox({ enforced: true, allow: { red: ['friend'], 'red@far': ['acquaintance'] } });
    expect(judge(policy, party('a', 3, 'red'), party('friend', 3))).toBe('ok');
    expect(judge(policy, party('b@far', 3, 'red'), party('friend', 3))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('b@far', 3, 'red'), party('acquaintance', 3))).toBe('ok');
    expect(judge(policy, party('b@away', 3, 'red'), party('acquaintance', 3))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('a', 3, 'red'), party('acquaintance', 3))).toBe('SANDBOX_VIOLATION');
  });

  it('take an allowed plain id for the local agent alone, and a full address for the remote one alone [R10.1]', () => {
    const policy = withSandbox({ enforced: true, allow: { red: ['friend', 'pal@far'] } });
    expect(judge(policy, party('a', 3, 'red'), party('friend@far', 3))).toBe('SANDBOX_VIOLATION');
    expect(judge(policy, party('a', 3, 'red'), party('pal@far', 3))).toBe('ok');
    expect(judge(policy, party('a', 3, 'red'), party('pal', 3))).toBe('SANDBOX_VIOLATION');
  });

  it('decide alone, without tiers, what may be discovered [R10.4 P30]', () => {
    const wrong: string[] = [];
    for (const relation of RELATIONS) {
      const policy = withSandbox(relation.config);
      for (const viewerTier of TIERS) {
        for (const targetTier of TIERS) {
          const viewer = party('source', viewerTier, relation.source);
          const seen = policy.mayDiscover(viewer, party('target', targetTier, relation.target));
          if (seen !== relation.passes) wrong.push(`L${viewerTier} of L${targetTier}, ${relation.name}: ${seen}`);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  it('let the same agents be discovered as addressed, whatever the configuration [R10.1 R10.4 GEN.arbSandboxConfig]', () => {
    const ids = ['one', 'two', 'three', 'four@far'];
    const sandbox = fc.option(fc.constantFrom('red', 'blue', 'green'), { nil: undefined });
    const arbParty = fc
      .tuple(fc.constantFrom(...ids), arbTier(), sandbox)
      .map(([address, tier, sandboxId]) => party(address, tier, sandboxId));
    fc.assert(
      fc.property(arbSandboxConfig(ids), arbParty, arbParty, (config, source, target) => {
        const policy = withSandbox(config);
        const reply = judge(policy, source, target, { type: 'response', inReply: true });
        expect(policy.mayDiscover(source, target)).toBe(reply === 'ok');
        if (reply !== 'ok') expect(judge(policy, source, target)).toBe('SANDBOX_VIOLATION');
        if (source.sandboxId === undefined || !config.enforced) expect(reply).toBe('ok');
      }),
      { numRuns: 500 },
    );
  });

  it('refuse a bad configuration and leave the old one in force [R10.1]', () => {
    const policy = withSandbox({ enforced: true, allow: { red: ['friend'] } });
    const bad: unknown[] = [
      null,
      'off',
      {},
      { enforced: 'no' },
      { enforced: false, crossSandboxAllowList: 'friend' },
      { enforced: false, crossSandboxAllowList: [7] },
      { enforced: false, allow: ['friend'] },
      { enforced: false, allow: { red: 'friend' } },
      { enforced: false, allow: { red: [''] } },
      { enforced: false, shared: 'red' },
    ];
    for (const config of bad) {
      expect(() => policy.setSandboxConfig(config as never)).toThrow(
        expect.objectContaining({ code: 'INVALID_CONFIG' }),
      );
      expect(judge(policy, party('a', 3, 'red'), party('friend', 3))).toBe('ok');
      expect(judge(policy, party('a', 3, 'red'), party('stranger', 3))).toBe('SANDBOX_VIOLATION');
    }
  });

  it('stay as they were set when the caller changes its own object afterwards [R10.1]', () => {
    const allowed = ['friend'];
    const policy = withSandbox({ enforced: true, allow: { red: allowed } });
    allowed.push('stranger');
    policy.setTierConfig({
      rules: [{ sourceTier: 3, allowedTargetTiers: [3], requiresEscalationJustification: false }],
    });
    expect(judge(policy, party('a', 3, 'red'), party('stranger', 3))).toBe('SANDBOX_VIOLATION');
  });
});

describe('an explanation', () => {
  it('says what sending would come to, and leaves no trace [R4.5 R10.1 R11.2]', async () => {
    const sandbox = fc.constantFrom(undefined, 'red', 'blue');
    await fc.assert(
      fc.asyncProperty(
        arbTierPair(),
        arbMessageType(),
        sandbox,
        sandbox,
        fc.boolean(),
        async ({ source, target }, type, from, to, justified) => {
          const mesh = await startMesh();
          mesh.join('source', { tier: source, sandbox: from });
          mesh.join('target', { tier: target, sandbox: to });
          const metadata = justified ? { escalationJustification: 'the disk is on fire' } : undefined;
          const decision = mesh.router.explain('source', 'target', type, metadata?.escalationJustification);
          expect(mesh.events).toEqual([]);
          expect(mesh.handled).toBe(0);
          const result = await mesh.send('source', 'target', { type, metadata });
          expect(decision.allowed ? undefined : decision.code).toBe(result.error);
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('a policy that is given no configuration at all', () => {
  it('refuses that too, and keeps the rules it has [R4.5 R10.1]', () => {
    const policy = withSandbox({ enforced: true, allow: { red: ['friend'] } });
    policy.setTierConfig({
      rules: [{ sourceTier: 3, allowedTargetTiers: [3], requiresEscalationJustification: false }],
    });
    const invalid = expect.objectContaining({ code: 'INVALID_CONFIG' });
    expect(() => policy.setTierConfig(undefined as never)).toThrow(invalid);
    expect(() => policy.setSandboxConfig(undefined as never)).toThrow(invalid);
    expect(judge(policy, party('a', 3, 'red'), party('friend', 3))).toBe('ok');
    expect(judge(policy, party('a', 3), party('friend', 0))).toBe('TIER_VIOLATION');
  });
});

describe('a node with a bad configuration', () => {
  it('does not start [R4.5 R10.1]', async () => {
    await expect(startMesh({ tiers: { rules: 'all' } as never })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    await expect(startMesh({ sandbox: { enforced: 1 } as never })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });
});

describe('the default assignments', () => {
  it('give the 21 Planetary agents the tiers of the specification [R11.1 UT8]', () => {
    expect(DEFAULT_TIER_ASSIGNMENTS).toEqual({
      sun: 0,
      mercury: 1,
      earth: 1,
      jupiter: 1,
      venus: 2,
      mars: 2,
      pluto: 2,
      saturn: 2,
      titan: 2,
      enceladus: 3,
      ganymede: 3,
      neptune: 3,
      charon: 3,
      uranus: 3,
      europa: 3,
      mimas: 3,
      io: 3,
      triton: 3,
      callisto: 3,
      atlas: 3,
      andromeda: 3,
    });
    expect(Object.keys(DEFAULT_TIER_ASSIGNMENTS)).toHaveLength(21);
  });

  it('make a specialist of every other agent, whatever its name [R11.1]', () => {
    for (const id of ['vulcan', 'SUN', 'constructor', 'toString', 'hasOwnProperty']) expect(defaultTier(id)).toBe(3);
  });

  it('are on the cards of agents that name no tier of their own [R11.1]', async () => {
    const { node } = await startMesh();
    const tierOf = (id: string, tier?: AgentTier) => node.agent({ id, tier }).card.tier;
    expect([tierOf('sun'), tierOf('earth'), tierOf('mars'), tierOf('io'), tierOf('vulcan')]).toEqual([0, 1, 2, 3, 3]);
    expect(tierOf('jupiter', 3)).toBe(3);
  });
});

describe('the agents of a project', () => {
  const party = (address: string, more: Partial<Party> = {}): Party => {
    return { address, node: undefined, tier: 2, sandboxId: undefined, ...more };
  };
  const project = () => {
    const policy = new Policy('here');
    const agents = new Map([
      ['reviewer-site', '/site'],
      ['builder-site', '/site'],
      ['reviewer-shop', '/shop'],
    ]);
    policy.setProjects({ agents, clients: new Map([['alice', '/site']]) });
    return policy;
  };

  it('exist for each other, the clients in the project and the owner only [BG.5]', () => {
    const policy = project();
    const reviewer = party('reviewer-site');
    const inside = ['builder-site', 'alice', 'operator'].map((name) => party(name));
    const node = 'f'.repeat(64);
    const beyond = [
      ...['reviewer-shop', 'bob', 'guest', 'anonymous'].map((name) => party(name)),
      // The owner and a client of the same name on another node are other parties.
      ...['alice', 'operator'].map((name) => party(`${name}@${node}`, { node })),
    ];
    for (const [others, isAllowed] of [[inside, true] as const, [beyond, false] as const]) {
      for (const other of others) {
        const asked = [
          policy.ask(other, reviewer, 'request').allowed,
          policy.ask(reviewer, other, 'request').allowed,
          policy.judgeAnswer(reviewer, other).allowed,
          policy.mayDiscover(other, reviewer),
          policy.mayUse(other, reviewer),
          policy.mayOpen(other, reviewer),
        ];
        expect([other.address, ...asked]).toEqual([other.address, ...asked.map(() => isAllowed)]);
      }
    }
    expect(policy.ask(party('alice'), party('bob'), 'request').allowed).toBe(true);
  });

  it('keep to tiers and sandboxes, and stay confined when other rules change [BG.5]', () => {
    const policy = project();
    policy.setSandboxConfig({ enforced: true });
    policy.setTierConfig({ rules: [...DEFAULT_TIER_RULES] });
    expect(policy.isConfined('reviewer-site')).toBe(true);
    expect(policy.ask(party('bob'), party('reviewer-site'), 'request').allowed).toBe(false);
    const boxed = party('alice', { sandboxId: 'lab' });
    expect(policy.ask(boxed, party('reviewer-site'), 'request')).toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(policy.ask(party('alice', { tier: 1 }), party('reviewer-site'), 'request')).toMatchObject({
      code: 'TIER_VIOLATION',
    });
  });

  it('are announced to no other node, also not to those of the owner [BG.5]', () => {
    const registry = new AgentRegistry();
    registry.policy.setProjects({ agents: new Map([['mars', '/site']]), clients: new Map() });
    const card = { id: 'mars', tier: 2 as const } as Parameters<typeof registry.mayAnnounce>[0];
    expect(registry.mayAnnounce(card, 'f'.repeat(64), undefined)).toBe(false);
    expect(registry.mayAnnounce({ ...card, id: 'venus' }, 'f'.repeat(64), undefined)).toBe(true);
  });
});
