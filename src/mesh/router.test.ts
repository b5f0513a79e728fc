import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbAgentCards, arbJson, arbMessageType, arbTier, arbTierPair } from '../../test/generators.js';
import { introduce, type Mesh, startMesh, startPair } from '../../test/mesh-fixture.js';
import { buildCard } from '../agent/agent-init.js';
import { createNode } from '../node/compose.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { A2AEnvelope, AgentTier, RoutingResult } from './schemas.js';

/** The tiers that each tier may open a conversation with. */
const REACHES: Readonly<Record<AgentTier, readonly AgentTier[]>> = {
  0: [0, 1, 2, 3],
  1: [0, 1],
  2: [0, 1, 2],
  3: [0, 1, 2, 3],
};
const JUSTIFIED = { escalationJustification: 'it cannot wait' };
const BY_CAPABILITY = { routingHint: 'capability' } as const;

const never = () => new Promise<void>(() => {});

/** Promises that the test settles, one for each call. */
function gate() {
  const waiting: (() => void)[] = [];
  return {
    wait: () => new Promise<void>((resolve) => waiting.push(resolve)),
    release: () => waiting.shift()!(),
  };
}

function remoteCard(id: string, init: { tier?: AgentTier; capabilities?: string[] } = {}) {
  return buildCard({ id, tier: 3, ...init }, 0);
}

describe('a message to one agent', () => {
  it('Feature: a2a-mcp-protocols, Property 13: Direct message routing [P13 R4.1]', async () => {
    await fc.assert(
      fc.asyncProperty(
        arbAgentCards(2, 8),
        fc.nat(),
        fc.nat(),
        arbMessageType(),
        arbJson(),
        async (cards, from, to, type, payload) => {
          const mesh = await startMesh();
          const sender = cards[from % cards.length]!;
          const recipient = cards[to % cards.length]!;
          for (const card of cards) {
            const tier = card === sender ? 0 : card.tier;
            mesh.node.registry.register({ ...card, tier, sandboxId: undefined });
            mesh.listen(card.id);
          }
          const result = await mesh.send(sender.id, recipient.id, { type, payload });
          expect(result).toMatchObject({ delivered: true, path: 'local', targetAgentId: recipient.id });
          expect(mesh.handled).toBe(1);
          expect(mesh.inbox(recipient.id)).toEqual([
            expect.objectContaining({ sender: sender.id, recipient: recipient.id, type, payload }),
          ]);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('reaches every handler of that agent, and none that was taken away [R4.1]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('expert');
    const stop = mesh.listen('expert');
    await mesh.send('asker', 'expert', { payload: 'both' });
    stop();
    await mesh.send('asker', 'expert', { payload: 'one' });
    expect(mesh.inbox('expert').map(({ payload }) => payload)).toEqual(['both', 'both', 'one']);
  });

  it('may name an agent of this node by its full address [R4.1]', async () => {
    const mesh = await startMesh({ key: 'here' });
    mesh.join('asker');
    mesh.join('expert');
    const result = await mesh.send('asker', 'expert@here');
    expect(result).toMatchObject({ delivered: true, path: 'local', targetAgentId: 'expert' });
    expect(mesh.inbox('expert')).toHaveLength(1);
  });

  it('is refused with the unknown id when there is no such agent [E.AGENT_NOT_FOUND R4.4]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    const result = await mesh.send('asker', 'nobody');
    expect(result).toMatchObject({ delivered: false, error: 'AGENT_NOT_FOUND', targetAgentId: 'nobody' });
    expect(mesh.eventsOf('security')).toEqual([]);
  });

  it('is refused when nothing listens for the agent, and goes through once something does [R4.1]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('expert', { listens: false });
    expect((await mesh.send('asker', 'expert')).error).toBe('AGENT_UNAVAILABLE');
    mesh.listen('expert');
    expect((await mesh.send('asker', 'expert')).delivered).toBe(true);
    expect(mesh.inbox('expert')).toHaveLength(1);
  });

  it('is an error of the caller when it is malformed, and leaves nothing behind [R4.1]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('expert');
    const valid: A2AEnvelope = { ...mesh.envelope('asker', 'expert') };
    const send = (changes: object) => mesh.router.send({ ...valid, ...changes });
    await expect(send({ type: 'gossip' })).rejects.toMatchObject({ code: 'INVALID_ENVELOPE' });
    await expect(send({ sender: '*' })).rejects.toMatchObject({ code: 'INVALID_ENVELOPE' });
    await expect(send({ payload: () => 1 })).rejects.toMatchObject({ code: 'INVALID_ENVELOPE' });
    await expect(send({ schemaVersion: 2 })).rejects.toMatchObject({ code: 'SCHEMA_VERSION_MISMATCH' });
    await expect(mesh.router.receive({ ...valid, id: '' }, 'there')).rejects.toMatchObject({
      code: 'INVALID_ENVELOPE',
    });
    expect(mesh.events).toEqual([]);
    expect(mesh.handled).toBe(0);
  });

  it('cannot be listened for before the agent is registered [R4.1]', async () => {
    const mesh = await startMesh();
    expect(() => mesh.listen('nobody')).toThrow(expect.objectContaining({ code: 'AGENT_NOT_FOUND' }));
  });
});

describe('the sender of a message', () => {
  const oneSecurityEvent = (mesh: Mesh, result: RoutingResult) => {
    expect(result).toMatchObject({ delivered: false, error: 'SENDER_REFUSED' });
    expect(mesh.eventsOf('security')).toEqual([expect.objectContaining({ code: 'SENDER_REFUSED' })]);
    expect(mesh.eventsOf('message-sent')).toEqual([]);
    expect(mesh.handled).toBe(0);
  };

  it('must be registered [R4.1 R10.2]', async () => {
    const mesh = await startMesh();
    mesh.join('expert');
    oneSecurityEvent(mesh, await mesh.send('nobody', 'expert'));
  });

  it('must be an agent of this node [R4.1 R10.2]', async () => {
    const mesh = await startMesh();
    mesh.join('expert');
    mesh.node.registry.mergeRemote(remoteCard('asker'), 'there');
    oneSecurityEvent(mesh, await mesh.send('asker@there', 'expert'));
  });

  it('cannot borrow the name of another node’s agent [R4.1 R10.2]', async () => {
    const mesh = await startMesh();
    mesh.join('expert');
    mesh.node.registry.mergeRemote(remoteCard('asker'), 'there');
    oneSecurityEvent(mesh, await mesh.send('asker', 'expert'));
  });

  it('cannot claim another tier than its card’s [R4.5 R10.2]', async () => {
    const mesh = await startMesh();
    mesh.join('strategist', { tier: 1 });
    mesh.join('specialist', { tier: 3 });
    oneSecurityEvent(mesh, await mesh.send('strategist', 'specialist', { metadata: { tier: 0 } }));
  });

  it('cannot claim another sandbox than its card’s [R10.1 R10.2]', async () => {
    const mesh = await startMesh();
    mesh.join('inmate', { sandbox: 'red' });
    mesh.join('other', { sandbox: 'blue' });
    oneSecurityEvent(mesh, await mesh.send('inmate', 'other', { metadata: { sandboxId: 'blue' } }));
  });

  it('cannot claim a sandbox when its card has none, in a broadcast either [R10.1 R10.2]', async () => {
    const mesh = await startMesh();
    mesh.join('free');
    mesh.join('other', { sandbox: 'blue' });
    oneSecurityEvent(mesh, await mesh.send('free', '*', { metadata: { sandboxId: 'blue' } }));
  });

  it('may say of itself what its card says [R4.1]', async () => {
    const mesh = await startMesh();
    mesh.join('inmate', { tier: 2, sandbox: 'red' });
    mesh.join('mate', { tier: 2, sandbox: 'red' });
    const result = await mesh.send('inmate', 'mate', { metadata: { tier: 2, sandboxId: 'red' } });
    expect(result.delivered).toBe(true);
  });

  it('must justify a proposal from L2 or L3 to L0 or L1, and nothing else [R11.2 E.ESCALATION_REQUIRED]', async () => {
    const mesh = await startMesh();
    for (const tier of [0, 1, 2, 3] as const) mesh.join(`l${tier}`, { tier });
    const propose = async (from: string, to: string, metadata?: typeof JUSTIFIED) =>
      (await mesh.send(from, to, { type: 'task-proposal', metadata })).error;
    for (const from of ['l2', 'l3']) {
      for (const to of ['l0', 'l1']) {
        expect(await propose(from, to)).toBe('ESCALATION_REQUIRED');
        expect(await propose(from, to, { escalationJustification: '  ' })).toBe('ESCALATION_REQUIRED');
        expect(await propose(from, to, JUSTIFIED)).toBeUndefined();
        expect((await mesh.send(from, to, { type: 'request' })).delivered).toBe(true);
      }
    }
    expect(await propose('l3', 'l2')).toBeUndefined();
    expect(await propose('l1', 'l0')).toBeUndefined();
    expect(mesh.eventsOf('security')).toHaveLength(8);
  });

  it('has the rank of the card it has now [R4.5]', async () => {
    const mesh = await startMesh();
    mesh.join('worker', { tier: 1 });
    mesh.join('specialist', { tier: 3 });
    expect((await mesh.send('worker', 'specialist')).error).toBe('TIER_VIOLATION');
    mesh.join('worker', { tier: 0, listens: false });
    expect((await mesh.send('worker', 'specialist')).delivered).toBe(true);
  });

  it('must still be registered when it answers [R4.1 R10.2]', async () => {
    const mesh = await startMesh();
    const { wait, release } = gate();
    mesh.join('asker');
    mesh.node.agent({ id: 'expert', tier: 3 }).onRequest(() => wait().then(() => 'too late'));
    await mesh.send('asker', 'expert', { type: 'request', thread: 't' });
    mesh.node.registry.unregister('expert');
    release();
    await mesh.runtime.advance(0);
    expect(mesh.inbox('asker')).toEqual([]);
  });

  it('may write itself by its full address [R4.1]', async () => {
    const mesh = await startMesh({ key: 'here' });
    mesh.join('asker');
    mesh.join('expert');
    expect((await mesh.send('asker@here', 'expert')).delivered).toBe(true);
  });
});

describe('a broadcast', () => {
  it('Feature: a2a-mcp-protocols, Property 14: Broadcast delivery [P14 R4.2 R11.3]', async () => {
    await fc.assert(
      fc.asyncProperty(arbAgentCards(1, 10), arbMessageType(), arbJson(), async (cards, type, payload) => {
        const mesh = await startMesh();
        mesh.join('sun', { tier: 0 });
        const others = cards.filter((card) => card.id !== 'sun');
        for (const card of others) {
          mesh.node.registry.register(card);
          mesh.listen(card.id);
        }
        const result = await mesh.send('sun', '*', { type, payload });
        expect(result).toMatchObject({ delivered: true, path: 'broadcast', targetAgentId: '*' });
        expect(result.broadcast).toEqual({
          recipients: others.length,
          delivered: others.length,
          withheld: 0,
          failed: 0,
          withheldByCode: {},
        });
        for (const card of others) {
          expect(mesh.inbox(card.id)).toEqual([expect.objectContaining({ recipient: '*', type, payload })]);
        }
        expect(mesh.inbox('sun')).toEqual([]);
        expect(mesh.eventsOf('security')).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  it('is delivered, withheld or failed for each other agent, and says which [R4.2 R4.5 R10.2 R11.4 R12.1 P31]', async () => {
    const arbMember = fc.record({
      tier: arbTier(),
      sandbox: fc.constantFrom(undefined, 'red', 'blue'),
      listens: fc.boolean(),
    });
    const arbFar = fc.record({ tier: arbTier(), listens: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(
        fc.record({ tier: arbTier(), sandbox: fc.constantFrom(undefined, 'red') }),
        fc.array(arbMember, { maxLength: 8 }),
        fc.array(arbFar, { maxLength: 4 }),
        arbMessageType(),
        fc.boolean(),
        async (source, near, far, type, justified) => {
          const { here, there } = await startPair({ sandbox: { enforced: true, allow: { red: ['near0'] } } });
          here.join('source', source);
          near.forEach((member, index) => {
            here.join(`near${index}`, member);
          });
          far.forEach((member, index) => {
            there.join(`far${index}`, member);
          });
          introduce(here, there);
          const metadata = justified ? JUSTIFIED : undefined;
          const result = await here.send('source', '*', { type, payload: 'news', metadata });

          const fate = (address: string, member: { tier: AgentTier; sandbox?: string; listens: boolean }) => {
            const confined = source.sandbox === 'red' && member.sandbox !== 'red' && address !== 'near0';
            if (confined) return 'SANDBOX_VIOLATION';
            if (!REACHES[source.tier].includes(member.tier)) return 'TIER_VIOLATION';
            const upward = type === 'task-proposal' && source.tier >= 2 && member.tier <= 1;
            if (upward && !justified) return 'ESCALATION_REQUIRED';
            return member.listens ? 'delivered' : 'failed';
          };
          const everyone = [
            ...near.map((member, index) => ({ ...member, id: `near${index}`, address: `near${index}` })),
            ...far.map((member, index) => ({ ...member, id: `far${index}`, address: `far${index}@there` })),
          ].map((member) => ({ ...member, fate: fate(member.address, member) }));
          const delivered = everyone.filter((member) => member.fate === 'delivered');
          const failed = everyone.filter((member) => member.fate === 'failed');
          const withheld = everyone.filter((member) => member.fate !== 'delivered' && member.fate !== 'failed');
          const withheldByCode: Record<string, number> = {};
          for (const member of withheld) withheldByCode[member.fate] = (withheldByCode[member.fate] ?? 0) + 1;

          const counts = {
            recipients: everyone.length,
            delivered: delivered.length,
            withheld: withheld.length,
            failed: failed.length,
            withheldByCode,
          };
          const { SANDBOX_VIOLATION: hidden = 0, ...visible } = withheldByCode;
          expect(result.broadcast).toEqual({
            ...counts,
            recipients: counts.recipients - hidden,
            withheld: counts.withheld - hidden,
            withheldByCode: visible,
          });
          for (const member of everyone) {
            const inbox = (member.address === member.id ? here : there).inbox(member.id);
            expect(inbox.map(({ payload }) => payload)).toEqual(member.fate === 'delivered' ? ['news'] : []);
          }
          const named = (kind: 'security' | 'delivery-failure' | 'tier-audit' | 'message-received') =>
            here
              .eventsOf(kind)
              .map((event) => event.recipient)
              .sort();
          const addresses = (members: readonly { address: string }[]) => members.map(({ address }) => address).sort();
          expect(named('security')).toEqual(addresses(withheld));
          expect(named('delivery-failure')).toEqual(addresses(failed));
          expect(named('tier-audit')).toEqual(addresses(delivered.filter((member) => member.tier !== source.tier)));
          expect(named('message-received')).toEqual(addresses(delivered.filter(({ id, address }) => id === address)));
          expect(here.eventsOf('message-sent')).toHaveLength(1);
          expect(here.eventsOf('routing-decision')).toEqual([
            expect.objectContaining({ routingPath: 'broadcast', success: true, broadcast: counts }),
          ]);
          const metrics = here.node.observability.getMetrics();
          expect(metrics.totalMessagesSent).toBe(1);
          expect(metrics.totalMessagesReceived).toBe(here.handled);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('of an L0 agent reaches every tier, on other nodes too [R11.3 R4.2]', async () => {
    const { here, there } = await startPair();
    here.join('sun', { tier: 0 });
    for (const tier of [0, 1, 2, 3] as const) {
      here.join(`near${tier}`, { tier });
      there.join(`far${tier}`, { tier });
    }
    introduce(here, there);
    const result = await here.send('sun', '*', { payload: 'directive' });
    expect(result.broadcast).toMatchObject({ recipients: 8, delivered: 8, withheld: 0, failed: 0 });
    expect([here.handled, there.handled]).toEqual([4, 4]);
    expect(there.inbox('far3')).toEqual([expect.objectContaining({ sender: 'sun@here', recipient: 'far3' })]);
  });

  it('counts an agent whose node refuses it, or cannot be reached, as failed [R4.2]', async () => {
    const { here, there } = await startPair();
    here.join('sun', { tier: 0 });
    there.join('far');
    introduce(here, there);
    here.node.registry.mergeRemote(remoteCard('lost'), 'nowhere');
    here.carrier.interfere = () => {
      throw new EclipticError('DELIVERY_FAILED', 'the link broke');
    };
    const result = await here.send('sun', '*');
    expect(result.broadcast).toMatchObject({ recipients: 2, delivered: 0, failed: 2 });
    expect(here.eventsOf('delivery-failure').map(({ recipient, code }) => [recipient, code])).toEqual([
      ['lost@nowhere', 'AGENT_UNAVAILABLE'],
      ['far@there', 'DELIVERY_FAILED'],
    ]);
    expect(here.node.observability.getMetrics().errorCount).toBe(2);
  });

  it('in a mesh of one agent has no recipient [R4.2]', async () => {
    const mesh = await startMesh();
    mesh.join('alone');
    const result = await mesh.send('alone', '*');
    expect(result).toMatchObject({ delivered: true, broadcast: { recipients: 0, delivered: 0 } });
    expect(mesh.handled).toBe(0);
  });
});

describe('a message to a capability', () => {
  it('Feature: a2a-mcp-protocols, Property 15: Capability-based routing [P15 R4.3]', async () => {
    await fc.assert(
      fc.asyncProperty(
        arbAgentCards(1, 8),
        fc.nat(),
        arbMessageType(),
        arbJson(),
        async (cards, pick, type, payload) => {
          const mesh = await startMesh();
          mesh.join('Asker', { tier: 0 });
          for (const card of cards) {
            mesh.node.registry.register({ ...card, sandboxId: undefined });
            mesh.listen(card.id);
          }
          const offered = cards.flatMap((card) => card.capabilities.map(({ id }) => id));
          const wanted = offered[pick % offered.length] ?? 'none.offered';
          const result = await mesh.send('Asker', wanted, { type, payload, metadata: BY_CAPABILITY });
          const first = cards.find((card) => card.capabilities.some(({ id }) => id === wanted));
          if (first === undefined) {
            expect(result).toMatchObject({ delivered: false, error: 'CAPABILITY_NOT_FOUND', targetAgentId: wanted });
            return;
          }
          expect(result).toMatchObject({ delivered: true, path: 'local', targetAgentId: first.id });
          expect(mesh.handled).toBe(1);
          expect(mesh.inbox(first.id)).toEqual([expect.objectContaining({ type, payload })]);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('goes to the first of the registry that offers it [R4.3]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('painter', { capabilities: ['paint'] });
    mesh.join('first', { capabilities: ['sum'] });
    mesh.join('second', { capabilities: ['sum', 'paint'] });
    const results = [
      await mesh.send('asker', 'sum', { metadata: BY_CAPABILITY }),
      await mesh.send('asker', 'sum', { metadata: BY_CAPABILITY }),
      await mesh.send('asker', 'paint', { metadata: BY_CAPABILITY }),
    ];
    expect(results.map((result) => result.targetAgentId)).toEqual(['first', 'first', 'painter']);
  });

  it('is refused with the capability when no agent offers it [E.CAPABILITY_NOT_FOUND R4.3]', async () => {
    const mesh = await startMesh();
    mesh.join('asker', { capabilities: ['sum'] });
    for (const wanted of ['sum', 'paint']) {
      const result = await mesh.send('asker', wanted, { metadata: BY_CAPABILITY });
      expect(result).toMatchObject({ delivered: false, error: 'CAPABILITY_NOT_FOUND', targetAgentId: wanted });
    }
    expect(mesh.inbox('asker')).toEqual([]);
  });

  it('takes a capability for a capability, though an agent has that name [R4.3]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('sum');
    mesh.join('adder', { capabilities: ['sum'] });
    expect((await mesh.send('asker', 'sum', { metadata: BY_CAPABILITY })).targetAgentId).toBe('adder');
    expect((await mesh.send('asker', 'sum')).targetAgentId).toBe('sum');
  });

  it('passes over agents that policy forbids, that do not listen or that are full [R4.3 R4.5 R10.1]', async () => {
    const mesh = await startMesh({ limits: { mailboxCapacity: 1, concurrency: 1 } });
    mesh.join('asker', { tier: 2, sandbox: 'red' });
    mesh.join('outside', { tier: 2, capabilities: ['sum'] });
    mesh.join('lowly', { tier: 3, sandbox: 'red', capabilities: ['sum'] });
    mesh.join('absent', { tier: 2, sandbox: 'red', capabilities: ['sum'], listens: false });
    mesh.join('busy', { tier: 2, sandbox: 'red', capabilities: ['sum'], handler: never });
    mesh.join('fit', { tier: 2, sandbox: 'red', capabilities: ['sum'] });
    await mesh.send('asker', 'busy');
    await mesh.send('asker', 'busy');
    const result = await mesh.send('asker', 'sum', { metadata: BY_CAPABILITY });
    expect(result.targetAgentId).toBe('fit');
    expect(mesh.eventsOf('security')).toEqual([]);
  });

  it('is refused when policy forbids all that offer it [E.CAPABILITY_NOT_FOUND R4.5]', async () => {
    const mesh = await startMesh();
    mesh.join('strategist', { tier: 1 });
    mesh.join('specialist', { tier: 3, capabilities: ['sum'] });
    const result = await mesh.send('strategist', 'sum', { metadata: BY_CAPABILITY });
    expect(result.error).toBe('CAPABILITY_NOT_FOUND');
    expect(mesh.handled).toBe(0);
  });

  it('goes to the allowed, reachable, local, least loaded, earliest one, always the same [R4.3 P15]', async () => {
    const arbCandidate = fc.record({
      remote: fc.boolean(),
      tier: fc.constantFrom<AgentTier>(2, 3),
      listens: fc.boolean(),
      load: fc.nat(2),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(arbCandidate, { minLength: 1, maxLength: 7 }), fc.boolean(), async (all, linked) => {
        const choose = async () => {
          const { here, there } = await startPair();
          here.join('asker', { tier: 2 });
          here.join('sun', { tier: 0 });
          for (const [index, { remote, tier, listens, load }] of all.entries()) {
            const mesh = remote ? there : here;
            mesh.join(`c${index}`, { tier, capabilities: ['sum'], listens: remote || listens, handler: never });
            if (remote) here.node.registry.mergeRemote(there.node.registry.requireById(`c${index}`), 'there');
            else if (listens) for (let sent = 0; sent < load; sent++) await here.send('sun', `c${index}`);
          }
          there.node.registry.mergeRemote(here.node.registry.requireById('asker'), 'here');
          if (!linked) here.carrier.disconnect('there');
          return here.send('asker', 'sum', { metadata: BY_CAPABILITY });
        };
        const eligible = all
          .map((candidate, index) => ({ ...candidate, index }))
          .filter(({ remote, tier, listens }) => tier === 2 && (remote ? linked : listens));
        const rank = ({ remote, load, index }: (typeof eligible)[number]) => (remote ? 1_000 : load * 100) + index;
        const best = eligible.sort((a, b) => rank(a) - rank(b))[0];
        const expected = best && (best.remote ? `c${best.index}@there` : `c${best.index}`);
        const [first, again] = [await choose(), await choose()];
        expect(first.delivered ? first.targetAgentId : undefined).toBe(expected);
        expect(again.targetAgentId).toBe(first.targetAgentId);
      }),
      { numRuns: 150 },
    );
  });

  it('is spread over the agents of other nodes by what is on its way to each [R4.3 DR.3]', async () => {
    const { here, there } = await startPair();
    here.join('asker', { tier: 2 });
    for (const id of ['c0', 'c1']) {
      there.join(id, { tier: 2, capabilities: ['sum'] });
      here.node.registry.mergeRemote(there.node.registry.requireById(id), 'there');
    }
    there.node.registry.mergeRemote(here.node.registry.requireById('asker'), 'here');
    const sends = Array.from({ length: 10 }, () => here.send('asker', 'sum', { metadata: BY_CAPABILITY }));
    const targets = (await Promise.all(sends)).map(({ targetAgentId }) => targetAgentId);
    expect(targets.filter((target) => target === 'c0@there')).toHaveLength(5);
    const alone = await here.send('asker', 'sum', { metadata: BY_CAPABILITY });
    expect(alone.targetAgentId, 'nothing is on its way any more').toBe('c0@there');
  });

  it('asks for a store, and does not deny the capability, when it is durable [R4.3]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('adder', { capabilities: ['sum'] });
    const result = await mesh.send('asker', 'sum', { metadata: { ...BY_CAPABILITY, durable: true } });
    expect(result.error).toBe('STORE_REQUIRED');
  });

  it('is refused as expired, not as an unknown capability, when its time has run out [R4.3]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('adder', { capabilities: ['sum'] });
    const envelope = mesh.envelope('asker', 'sum', { metadata: { ...BY_CAPABILITY, ttlMs: 10 } });
    await mesh.runtime.advance(11);
    expect((await mesh.router.send(envelope)).error).toBe('EXPIRED');
  });
});

describe('the traces of a message', () => {
  it('Feature: a2a-mcp-protocols, Property 17: Routing event emission [P17 R4.6 R12.3]', async () => {
    const arbWay = fc.constantFrom('expert', 'expert@here', 'far', 'far@there', '*', 'sum', 'nobody', 'deaf', 'lowly');
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(arbWay, arbMessageType()), { minLength: 1, maxLength: 10 }), async (sends) => {
        const { here, there } = await startPair();
        here.join('asker', { tier: 2 });
        here.join('expert', { tier: 2, capabilities: ['sum'] });
        here.join('deaf', { tier: 2, listens: false });
        here.join('lowly', { tier: 3 });
        there.join('far', { tier: 2 });
        introduce(here, there);
        for (const [recipient, type] of sends) {
          const metadata = recipient === 'sum' ? BY_CAPABILITY : undefined;
          const envelope = here.envelope('asker', recipient, { type, metadata });
          const result = await here.router.send(envelope);
          const traces = here.eventsOf('routing-decision').filter((event) => event.envelopeId === envelope.id);
          expect(traces).toHaveLength(1);
          expect(traces[0]).toMatchObject({
            sender: 'asker',
            recipient: result.targetAgentId,
            messageType: type,
            routingPath: result.path,
            duration: result.latencyMs,
            success: result.delivered,
          });
          expect(result.latencyMs).toBeGreaterThanOrEqual(0);
          const path = recipient === '*' ? 'broadcast' : recipient.startsWith('far') ? 'remote' : 'local';
          expect(result.path).toBe(path);
        }
      }),
      { numRuns: 100 },
    );
  });

  it('Feature: a2a-mcp-protocols, Property 31: Cross-tier audit logging [P31 R11.4]', async () => {
    await fc.assert(
      fc.asyncProperty(arbTierPair(), arbMessageType(), async ({ source, target }, type) => {
        const mesh = await startMesh();
        mesh.join('source', { tier: source });
        mesh.join('target', { tier: target });
        const result = await mesh.send('source', 'target', { type, metadata: JUSTIFIED });
        expect(result.delivered).toBe(REACHES[source].includes(target));
        const audit = { sender: 'source', recipient: 'target', sourceTier: source, targetTier: target };
        const logged = result.delivered && source !== target;
        expect(mesh.eventsOf('tier-audit')).toEqual(
          logged ? [expect.objectContaining({ ...audit, messageType: type })] : [],
        );
        expect(mesh.eventsOf('security')).toHaveLength(result.delivered ? 0 : 1);
      }),
      { numRuns: 200 },
    );
  });

  it('log a reply across tiers as well [R11.4 P31]', async () => {
    const mesh = await startMesh();
    mesh.join('specialist', { tier: 3 });
    mesh.join('strategist', { tier: 1 });
    await mesh.send('specialist', 'strategist', { type: 'request', thread: 't' });
    await mesh.send('strategist', 'specialist', { type: 'response', thread: 't' });
    expect(mesh.eventsOf('tier-audit').map(({ sourceTier, targetTier }) => [sourceTier, targetTier])).toEqual([
      [3, 1],
      [1, 3],
    ]);
  });

  it('tell the tiers of the moment, though the cards changed since [R11.4]', async () => {
    const mesh = await startMesh();
    mesh.join('sun', { tier: 0 });
    mesh.join('moon', { tier: 3 });
    await mesh.send('sun', 'moon');
    await mesh.send('sun', '*');
    mesh.join('moon', { tier: 0, listens: false });
    const audits = mesh.node.observability.getRecentEvents().filter((event) => event.type === 'tier-audit');
    expect(audits.map(({ sourceTier, targetTier }) => [sourceTier, targetTier])).toEqual([
      [0, 3],
      [0, 3],
    ]);
  });

  it('hold id, sender, recipient, type and time, when sent and when received [R12.1]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('expert');
    const envelope = mesh.envelope('asker', 'expert', { type: 'request', thread: 't' });
    await mesh.router.send(envelope);
    const about = {
      envelopeId: envelope.id,
      correlationId: 't',
      sender: 'asker',
      recipient: 'expert',
      messageType: 'request',
      timestamp: mesh.runtime.now(),
    };
    expect(mesh.eventsOf('message-sent')).toEqual([{ type: 'message-sent', ...about }]);
    expect(mesh.eventsOf('message-received')).toEqual([{ type: 'message-received', ...about }]);
  });

  it('show every refusal as a routing decision that failed, once, with its code [R12.3 R4.6]', async () => {
    const { here, there } = await startPair({
      limits: { mailboxCapacity: 1, concurrency: 1, threads: { waiting: 1 } },
    });
    here.join('asker', { tier: 2 });
    here.join('sun', { tier: 0 });
    here.join('lowly', { tier: 3 });
    here.join('inmate', { tier: 2, sandbox: 'red' });
    here.join('deaf', { tier: 2, listens: false });
    here.join('busy', { tier: 2, handler: never });
    there.join('far', { tier: 2 });
    introduce(here, there);
    here.node.registry.mergeRemote(remoteCard('lost', { tier: 2 }), 'nowhere');
    here.node.registry.mergeRemote(remoteCard('twin'), 'east');
    here.node.registry.mergeRemote(remoteCard('twin'), 'west');
    const late = here.envelope('asker', 'sun', { metadata: { ttlMs: 5 } });
    await here.runtime.advance(6);
    for (const thread of [undefined, 'taken']) await here.send('asker', 'busy', { type: 'request', thread });
    here.carrier.interfere = () => {
      throw new EclipticError('DELIVERY_FAILED', 'the link broke');
    };
    const refusals: readonly [code: string, send: () => Promise<RoutingResult>][] = [
      ['AGENT_NOT_FOUND', () => here.send('asker', 'nobody')],
      ['AMBIGUOUS_AGENT', () => here.send('asker', 'twin')],
      ['CAPABILITY_NOT_FOUND', () => here.send('asker', 'sum', { metadata: BY_CAPABILITY })],
      ['TIER_VIOLATION', () => here.send('asker', 'lowly')],
      ['SANDBOX_VIOLATION', () => here.send('inmate', 'asker')],
      ['ESCALATION_REQUIRED', () => here.send('asker', 'sun', { type: 'task-proposal' })],
      ['SENDER_REFUSED', () => here.send('nobody', 'asker')],
      ['AGENT_UNAVAILABLE', () => here.send('asker', 'deaf')],
      ['AGENT_UNAVAILABLE', () => here.send('asker', 'lost')],
      ['MAILBOX_FULL', () => here.send('asker', 'busy')],
      ['EXPIRED', () => here.router.send(late)],
      ['STORE_REQUIRED', () => here.send('asker', 'sun', { metadata: { durable: true } })],
      ['STORE_REQUIRED', () => here.send('asker', '*', { metadata: { durable: true } })],
      ['PERMITS_FULL', () => here.send('asker', 'sun', { type: 'request', thread: 'one more' })],
      ['DELIVERY_FAILED', () => here.send('asker', 'far')],
      ['AGENT_NOT_FOUND', () => here.router.receive({ ...there.envelope('far', 'nobody') }, 'there')],
      ['SENDER_REFUSED', () => here.router.receive({ ...there.envelope('ghost', 'sun') }, 'there')],
    ];
    for (const [code, send] of refusals) {
      here.events.length = 0;
      here.node.observability.resetMetrics();
      const handled = here.handled;
      const result = await send();
      expect(result).toMatchObject({ delivered: false, error: code });
      expect(here.eventsOf('routing-decision')).toEqual([expect.objectContaining({ success: false, code })]);
      expect(here.eventsOf('message-sent')).toEqual([]);
      expect(here.handled).toBe(handled);
      const { errorsByCode, totalMessagesSent } = here.node.observability.getMetrics();
      expect(errorsByCode[code as keyof typeof errorsByCode]).toBe(1);
      expect(totalMessagesSent).toBe(0);
    }
  });
});

describe('a message to another node', () => {
  it('goes to the remote agent of that id when there is no local one [R4.4 UT4]', async () => {
    const { here, there } = await startPair();
    here.join('asker');
    there.join('expert');
    expect((await here.send('asker', 'expert')).error).toBe('AGENT_NOT_FOUND');
    introduce(here, there);
    const result = await here.send('asker', 'expert', { payload: 'hello' });
    expect(result).toMatchObject({ delivered: true, path: 'remote', targetAgentId: 'expert@there' });
    expect(there.inbox('expert').map(({ payload }) => payload)).toEqual(['hello']);
  });

  it('goes to the local agent first when both nodes have one of that id [R4.4]', async () => {
    const { here, there } = await startPair();
    here.join('asker');
    here.join('expert');
    there.join('expert');
    introduce(here, there);
    await here.send('asker', 'expert', { payload: 'near' });
    await here.send('asker', 'expert@there', { payload: 'far' });
    expect(here.inbox('expert').map(({ payload }) => payload)).toEqual(['near']);
    expect(there.inbox('expert').map(({ payload }) => payload)).toEqual(['far']);
  });

  it('is refused when several other nodes have an agent of that id [R4.4]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.node.registry.mergeRemote(remoteCard('twin'), 'east');
    mesh.node.registry.mergeRemote(remoteCard('twin'), 'west');
    expect(await mesh.send('asker', 'twin')).toMatchObject({ delivered: false, error: 'AMBIGUOUS_AGENT' });
  });

  it('that is ambiguous is refused with the candidates [R4.4]', async () => {
    const { node } = await startMesh();
    const asker = node.agent({ id: 'asker' });
    node.registry.mergeRemote(remoteCard('twin'), 'east');
    node.registry.mergeRemote(remoteCard('twin'), 'west');
    await expect(asker.send('twin', null)).rejects.toMatchObject({
      code: 'AMBIGUOUS_AGENT',
      details: { candidates: ['twin@east', 'twin@west'] },
    });
  });

  it('names both ends as each node knows them [R4.4 R12.1]', async () => {
    const { here, there } = await startPair();
    here.join('asker');
    there.join('expert');
    introduce(here, there);
    await here.send('asker', 'expert');
    expect(there.inbox('expert')).toEqual([expect.objectContaining({ sender: 'asker@here', recipient: 'expert' })]);
    const ends = (mesh: Mesh) => mesh.events.map(({ type, sender, recipient }) => [type, sender, recipient]);
    expect(ends(here)).toEqual([
      ['message-sent', 'asker', 'expert@there'],
      ['routing-decision', 'asker', 'expert@there'],
    ]);
    expect(ends(there)).toEqual([
      ['routing-decision', 'asker@here', 'expert'],
      ['message-received', 'asker@here', 'expert'],
    ]);
    expect([here, there].map((mesh) => mesh.eventsOf('routing-decision')[0]!.routingPath)).toEqual([
      'remote',
      'remote',
    ]);
  });

  it('can be answered over the tiers by the agent it reached, and by no other [R4.5]', async () => {
    const { here, there } = await startPair();
    here.join('asker', { tier: 3 });
    there.join('expert', { tier: 1 });
    there.join('stranger', { tier: 1 });
    introduce(here, there);
    await here.send('asker', 'expert@there', { type: 'request', thread: 't' });
    const reply = { type: 'response', thread: 't' } as const;
    const forged = await there.send('stranger', 'asker@here', reply);
    expect(forged.error).toBe('TIER_VIOLATION');
    const smuggled = await here.router.receive({ ...there.envelope('stranger', 'asker', reply) }, 'there');
    expect(smuggled.error).toBe('TIER_VIOLATION');
    const honest = await there.send('expert', 'asker@here', reply);
    expect(honest).toMatchObject({ delivered: true, path: 'remote', targetAgentId: 'asker@here' });
    expect(here.inbox('asker').map(({ sender }) => sender)).toEqual(['expert@there']);
  });

  it('can be answered while it is still being carried [R4.4 R4.5]', async () => {
    const { here, there } = await startPair();
    here.join('asker', { tier: 3 });
    there.join('expert', {
      tier: 1,
      handler: async ({ sender }) => {
        await there.send('expert', sender, { type: 'response', thread: 't', payload: 'quick' });
      },
    });
    introduce(here, there);
    await here.send('asker', 'expert', { type: 'request', thread: 't' });
    await here.runtime.runUntilIdle();
    expect(here.inbox('asker').map(({ payload }) => payload)).toEqual(['quick']);
  });

  it('that cannot be carried is a failed delivery: one event, one error, nothing sent [E.DELIVERY_FAILED R12.3]', async () => {
    const { here, there } = await startPair();
    here.join('asker');
    there.join('expert');
    introduce(here, there);
    here.carrier.interfere = () => Promise.reject(new Error('the link broke'));
    const result = await here.send('asker', 'expert');
    expect(result).toMatchObject({ delivered: false, path: 'remote', error: 'DELIVERY_FAILED' });
    expect(here.events.map(({ type, recipient, code }) => [type, recipient, code])).toEqual([
      ['delivery-failure', 'expert@there', 'DELIVERY_FAILED'],
      ['routing-decision', 'expert@there', 'DELIVERY_FAILED'],
    ]);
    const { errorCount, errorsByCode, totalMessagesSent } = here.node.observability.getMetrics();
    expect({ errorCount, errorsByCode, totalMessagesSent }).toEqual({
      errorCount: 1,
      errorsByCode: { DELIVERY_FAILED: 1 },
      totalMessagesSent: 0,
    });
  });

  it('is refused at once when its node cannot be reached [R4.4]', async () => {
    const { here, there } = await startPair();
    here.join('asker');
    there.join('expert');
    introduce(here, there);
    here.carrier.disconnect('there');
    expect((await here.send('asker', 'expert')).error).toBe('AGENT_UNAVAILABLE');
  });

  it('is refused by a node without a way to other nodes [R4.4]', async () => {
    const node = await createNode({ runtime: new SimulatedRuntime(), nodeKey: 'here' });
    const asker = node.agent({ id: 'asker' });
    node.registry.mergeRemote(remoteCard('expert'), 'there');
    await expect(asker.send('expert', null)).rejects.toMatchObject({ code: 'AGENT_UNAVAILABLE' });
  });
});

describe('a message from another node', () => {
  it('is refused unless its sender is an announced agent of that node [R10.2 R4.4]', async () => {
    const { here, there } = await startPair();
    here.join('target');
    there.join('expert');
    introduce(here, there);
    here.node.registry.mergeRemote(remoteCard('expert'), 'elsewhere');
    here.node.registry.mergeRemote(remoteCard('hermit'), 'elsewhere');
    const plain: A2AEnvelope = { ...there.envelope('expert', 'target') };
    for (const sender of ['ghost', 'hermit', 'target', 'expert@elsewhere', 'hermit@elsewhere', 'target@here']) {
      here.events.length = 0;
      const result = await here.router.receive({ ...plain, sender }, 'there');
      expect(result).toMatchObject({ delivered: false, error: 'SENDER_REFUSED' });
      expect(here.eventsOf('security')).toHaveLength(1);
    }
    expect(here.inbox('target')).toEqual([]);
    for (const sender of ['expert', 'expert@there']) {
      expect((await here.router.receive({ ...plain, sender }, 'there')).delivered).toBe(true);
    }
    expect(here.inbox('target').map(({ sender }) => sender)).toEqual(['expert@there', 'expert@there']);
  });

  it('is refused when it contradicts its sender’s card [R10.2 R4.5]', async () => {
    const { here, there } = await startPair();
    here.join('target');
    there.join('expert', { tier: 2 });
    introduce(here, there);
    for (const metadata of [{ tier: 0 }, { sandboxId: 'red' }] as const) {
      here.events.length = 0;
      const result = await here.router.receive({ ...there.envelope('expert', 'target', { metadata }) }, 'there');
      expect(result.error).toBe('SENDER_REFUSED');
      expect(here.eventsOf('security')).toHaveLength(1);
    }
  });

  it('obeys the tier and sandbox rules of the node it comes to [R4.5 R10.1]', async () => {
    const { here, there } = await startPair();
    here.join('target', { tier: 3, sandbox: 'red' });
    there.join('strategist', { tier: 1 });
    there.join('inmate', { tier: 3, sandbox: 'red' });
    introduce(here, there);
    const receive = (sender: string) => here.router.receive({ ...there.envelope(sender, 'target') }, 'there');
    expect((await receive('strategist')).error).toBe('TIER_VIOLATION');
    expect((await receive('inmate')).error).toBe('SANDBOX_VIOLATION');
    here.router.setSandboxConfig({ enforced: true, shared: ['red'] });
    expect((await receive('inmate')).delivered).toBe(true);
  });

  it('reaches local agents only [E.AGENT_NOT_FOUND R4.4]', async () => {
    const { here, there } = await startPair();
    here.join('target');
    there.join('expert');
    introduce(here, there);
    here.node.registry.mergeRemote(remoteCard('hermit'), 'elsewhere');
    for (const recipient of ['nobody', 'hermit', 'hermit@elsewhere', '*']) {
      const result = await here.router.receive({ ...there.envelope('expert', recipient) }, 'there');
      expect(result).toMatchObject({ delivered: false, error: 'AGENT_NOT_FOUND' });
    }
    const full = await here.router.receive({ ...there.envelope('expert', 'target@here') }, 'there');
    expect(full).toMatchObject({ delivered: true, targetAgentId: 'target' });
  });

  it('that is refused is put down to the sender’s full address, not to a local agent of that name [R10.2 R12.3]', async () => {
    const { here, there } = await startPair();
    here.join('target', { tier: 3 });
    here.join('mars', { tier: 3 });
    there.join('mars', { tier: 3 });
    introduce(here, there);
    const claim = { ...there.envelope('mars', 'target', { metadata: { tier: 0 } }) };
    expect((await here.router.receive(claim, 'there')).error).toBe('SENDER_REFUSED');
    expect(here.events.map(({ type, sender }) => [type, sender])).toEqual([
      ['routing-decision', 'mars@there'],
      ['security', 'mars@there'],
    ]);
  });
});

describe('a handler that fails', () => {
  it('harms neither the sender nor other handlers, and leaves one error event [R4.1]', async () => {
    const mesh = await startMesh();
    const reasons = [
      new Error('no'),
      new EclipticError('NOT_HANDLED', 'not mine'),
      'text',
      '',
      42,
      undefined,
      null,
      Symbol('s'),
      { code: 'X' },
    ];
    let reason: unknown;
    mesh.join('asker');
    mesh.join('thrower', {
      handler: () => {
        throw reason;
      },
    });
    mesh.join('rejecter', { handler: () => Promise.reject(reason) });
    mesh.join('bystander');
    mesh.listen('thrower');
    for (reason of reasons) {
      for (const target of ['thrower', 'rejecter']) {
        mesh.events.length = 0;
        const result = await mesh.send('asker', target, { payload: 'x' });
        await mesh.runtime.advance(0);
        expect(result.delivered).toBe(true);
        const code = reason instanceof EclipticError ? reason.code : 'HANDLER_FAILED';
        expect(mesh.eventsOf('error')).toEqual([
          expect.objectContaining({ sender: 'asker', recipient: target, code, reason: expect.any(String) }),
        ]);
        await mesh.send('asker', 'bystander');
      }
    }
    expect(mesh.inbox('bystander')).toHaveLength(reasons.length * 2);
    expect(mesh.inbox('thrower')).toHaveLength(reasons.length * 2);
    expect(mesh.node.observability.getMetrics().errorCount).toBe(reasons.length * 2);
  });

  it('does no harm by throwing a value that cannot be converted to text [R4.1]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('thrower', {
      handler: () => {
        throw Object.create(null);
      },
    });
    mesh.join('rejecter', { handler: () => Promise.reject(Object.create(null)) });
    mesh.join('bystander');
    expect((await mesh.send('asker', 'thrower')).delivered).toBe(true);
    expect((await mesh.send('asker', 'rejecter')).delivered).toBe(true);
    await mesh.runtime.advance(0);
    await mesh.send('asker', 'bystander');
    expect(mesh.inbox('bystander')).toHaveLength(1);
    expect(mesh.eventsOf('error')).toHaveLength(2);
  });

  it('does not keep a broadcast from the others [R4.2]', async () => {
    const mesh = await startMesh();
    mesh.join('sun', { tier: 0 });
    mesh.join('thrower', {
      handler: () => {
        throw new Error('no');
      },
    });
    mesh.join('bystander');
    const result = await mesh.send('sun', '*');
    expect(result.broadcast).toMatchObject({ delivered: 2, failed: 0 });
    expect(mesh.inbox('bystander')).toHaveLength(1);
    expect(mesh.eventsOf('error').map(({ recipient }) => recipient)).toEqual(['thrower']);
  });
});

describe('the time to live of a message', () => {
  it('runs from its timestamp, its last millisecond included [R4.1]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('expert');
    const envelopes = [1, 2].map(() => mesh.envelope('asker', 'expert', { metadata: { ttlMs: 50 } }));
    await mesh.runtime.advance(50);
    expect((await mesh.router.send(envelopes[0]!)).delivered).toBe(true);
    await mesh.runtime.advance(1);
    expect(await mesh.router.send(envelopes[1]!)).toMatchObject({ delivered: false, error: 'EXPIRED' });
    expect(mesh.inbox('expert')).toHaveLength(1);
  });

  it('ends a broadcast as a whole [R4.2]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('expert');
    const envelope = mesh.envelope('asker', '*', { metadata: { ttlMs: 50 } });
    await mesh.runtime.advance(51);
    expect(await mesh.router.send(envelope)).toMatchObject({ delivered: false, path: 'broadcast', error: 'EXPIRED' });
    expect(mesh.inbox('expert')).toEqual([]);
  });

  it('runs on while it waits for the handler; too late, it is reported and not handled [R4.1]', async () => {
    const mesh = await startMesh({ limits: { concurrency: 1 } });
    const { wait, release } = gate();
    mesh.join('asker');
    mesh.join('expert', { handler: wait });
    await mesh.send('asker', 'expert', { payload: 'first' });
    await mesh.send('asker', 'expert', { payload: 'stale', metadata: { ttlMs: 50 } });
    await mesh.send('asker', 'expert', { payload: 'patient', metadata: { ttlMs: 51 } });
    await mesh.runtime.advance(51);
    release();
    await mesh.runtime.advance(0);
    expect(mesh.inbox('expert').map(({ payload }) => payload)).toEqual(['first', 'patient']);
    expect(mesh.eventsOf('delivery-failure')).toEqual([
      expect.objectContaining({ recipient: 'expert', code: 'EXPIRED' }),
    ]);
  });
});

describe('a durable message', () => {
  it('is refused by a node without a store, to one and to all [R4.1 R4.2]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('expert');
    for (const recipient of ['expert', '*']) {
      const result = await mesh.send('asker', recipient, { metadata: { durable: true } });
      expect(result).toMatchObject({ delivered: false, error: 'STORE_REQUIRED' });
    }
    expect((await mesh.send('asker', 'expert', { metadata: { durable: false } })).delivered).toBe(true);
    expect(mesh.inbox('expert')).toHaveLength(1);
  });
});

describe('the mailbox of an agent', () => {
  it('takes as many as its capacity beside those being handled, then refuses until one is taken [R4.1]', async () => {
    const mesh = await startMesh({ limits: { mailboxCapacity: 3, concurrency: 2 } });
    const { wait, release } = gate();
    mesh.join('asker');
    mesh.join('expert', { handler: wait });
    const send = async (payload: number) => (await mesh.send('asker', 'expert', { payload })).error;
    for (let n = 0; n < 5; n++) expect(await send(n)).toBeUndefined();
    expect(await send(5)).toBe('MAILBOX_FULL');
    expect((await mesh.send('asker', '*')).broadcast).toMatchObject({ delivered: 0, failed: 1 });
    release();
    await mesh.runtime.advance(0);
    expect(await send(6)).toBeUndefined();
    expect(await send(7)).toBe('MAILBOX_FULL');
    for (let n = 0; n < 5; n++) {
      release();
      await mesh.runtime.advance(0);
    }
    expect(mesh.inbox('expert').map(({ payload }) => payload)).toEqual([0, 1, 2, 3, 4, 6]);
  });

  it('hands over in order, never to more handlers at once than allowed [R4.1]', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.record({ work: fc.nat(30), gap: fc.nat(10) }), { minLength: 1, maxLength: 20 }),
        async (concurrency, messages) => {
          const mesh = await startMesh({ limits: { concurrency } });
          let running = 0;
          let most = 0;
          mesh.join('asker');
          mesh.join('expert', {
            handler: ({ payload }) => {
              most = Math.max(most, ++running);
              const { work } = messages[payload as number]!;
              const finish = () => void running--;
              if (work === 0) return finish();
              return new Promise<void>((resolve) => void mesh.runtime.setTimer(resolve, work)).then(finish);
            },
          });
          for (const [payload, { gap }] of messages.entries()) {
            expect((await mesh.send('asker', 'expert', { payload })).delivered).toBe(true);
            if (gap > 5) await mesh.runtime.advance(gap);
          }
          await mesh.runtime.runUntilIdle();
          expect(mesh.inbox('expert').map(({ payload }) => payload)).toEqual(messages.map((_, index) => index));
          expect(most).toBeLessThanOrEqual(concurrency);
          expect(running).toBe(0);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('keeps what waits while nothing listens, and hands it over to the next that does [R4.1]', async () => {
    const mesh = await startMesh({ limits: { concurrency: 1 } });
    const { wait, release } = gate();
    mesh.join('asker');
    mesh.join('expert', { listens: false });
    const stop = mesh.listen('expert', wait);
    for (const payload of ['a', 'b', 'c']) await mesh.send('asker', 'expert', { payload });
    stop();
    release();
    await mesh.runtime.advance(0);
    expect(mesh.inbox('expert').map(({ payload }) => payload)).toEqual(['a']);
    mesh.listen('expert');
    expect(mesh.inbox('expert').map(({ payload }) => payload)).toEqual(['a', 'b', 'c']);
  });

  it('never runs one handler inside another: what a handler sends comes after it [R4.1]', async () => {
    const mesh = await startMesh();
    const log: string[] = [];
    mesh.join('second', { handler: () => void log.push('second') });
    mesh.join('first', {
      handler: () => {
        log.push('first begins');
        void mesh.send('first', 'second');
        void mesh.send('first', '*');
        log.push('first ends');
      },
    });
    mesh.join('asker');
    await mesh.send('asker', 'first');
    expect(log).toEqual(['first begins', 'first ends', 'second', 'second']);
  });

  it('lets two agents answer each other 100,000 times without a deep stack, and others live meanwhile [R4.1]', async () => {
    const runtime = new SimulatedRuntime();
    const { registry, router, envelopes } = await createNode({ runtime });
    let rallies = 0;
    let seenByTimer = -1;
    let seenByThird = -1;
    const hit = (sender: string, recipient: string) =>
      void router.send(envelopes.create({ sender, recipient, type: 'notification', payload: null }));
    for (const id of ['ping', 'pong', 'third']) registry.register(buildCard({ id, tier: 3 }, 0));
    router.onReceive('ping', () => {
      if (++rallies < 100_000) hit('ping', 'pong');
    });
    router.onReceive('pong', () => {
      if (++rallies < 100_000) hit('pong', 'ping');
    });
    router.onReceive('third', () => {
      seenByThird = rallies;
    });
    runtime.setTimer(() => {
      seenByTimer = rallies;
      hit('ping', 'third');
    }, 0);
    hit('ping', 'pong');
    expect(rallies).toBeLessThan(100_000);
    await runtime.runUntilIdle();
    expect(rallies).toBe(100_000);
    expect(seenByTimer).toBeGreaterThan(0);
    expect(seenByTimer).toBeLessThan(100_000);
    expect(seenByThird).toBeGreaterThanOrEqual(seenByTimer);
    expect(seenByThird).toBeLessThan(100_000);
  });
});

describe('an agent that is withdrawn', () => {
  it('is gone, and what waited for it is reported as not delivered, once each [R4.1]', async () => {
    const mesh = await startMesh({ limits: { concurrency: 1 } });
    mesh.join('asker');
    mesh.join('expert', { handler: never });
    const envelopes = ['a', 'b', 'c'].map((payload) => mesh.envelope('asker', 'expert', { payload }));
    for (const envelope of envelopes) await mesh.router.send(envelope);
    expect(mesh.router.withdraw('expert')).toBe(true);
    expect(mesh.eventsOf('delivery-failure').map(({ envelopeId, code }) => [envelopeId, code])).toEqual([
      [envelopes[1]!.id, 'AGENT_UNAVAILABLE'],
      [envelopes[2]!.id, 'AGENT_UNAVAILABLE'],
    ]);
    expect((await mesh.send('asker', 'expert')).error).toBe('AGENT_NOT_FOUND');
    expect(mesh.router.withdraw('expert')).toBe(false);
    expect(mesh.eventsOf('delivery-failure')).toHaveLength(2);
    mesh.join('expert');
    expect((await mesh.send('asker', 'expert', { payload: 'new' })).delivered).toBe(true);
    expect(mesh.inbox('expert').map(({ payload }) => payload)).toEqual(['a', 'new']);
  });

  it('cannot be another node’s [R4.4]', async () => {
    const mesh = await startMesh();
    mesh.node.registry.mergeRemote(remoteCard('expert'), 'there');
    expect(mesh.router.withdraw('expert@there')).toBe(false);
    expect(mesh.node.registry.getById('expert@there')).toBeDefined();
  });
});

describe('a router that drains', () => {
  it('lets conversations go on that have begun, and opens no more [R4.1]', async () => {
    const mesh = await startMesh({ limits: { concurrency: 1 } });
    const { wait, release } = gate();
    mesh.join('asker');
    mesh.join('expert', { handler: wait });
    for (const payload of ['a', 'b']) await mesh.send('asker', 'expert', { type: 'request', thread: 't', payload });
    let drained = false;
    void mesh.router.drain().then(() => {
      drained = true;
    });
    for (const init of [{}, { thread: 'new' }]) {
      expect((await mesh.send('asker', 'expert', init)).error).toBe('NODE_STOPPED');
      expect((await mesh.send('asker', '*', init)).error).toBe('NODE_STOPPED');
    }
    expect((await mesh.send('expert', 'asker', { type: 'response', thread: 't' })).delivered).toBe(true);
    release();
    await mesh.runtime.advance(0);
    expect(mesh.inbox('expert').map(({ payload }) => payload)).toEqual(['a', 'b']);
    expect(drained).toBe(false);
    release();
    await mesh.runtime.advance(0);
    expect(drained).toBe(true);
  });

  it('tells everyone who waits for that [R4.1]', async () => {
    const mesh = await startMesh();
    const { wait, release } = gate();
    mesh.join('asker');
    mesh.join('expert', { handler: wait });
    await mesh.send('asker', 'expert');
    const told: string[] = [];
    void mesh.router.drain().then(() => told.push('first'));
    void mesh.router.drain().then(() => told.push('second'));
    release();
    await mesh.runtime.advance(0);
    expect(told.sort()).toEqual(['first', 'second']);
  });
});
