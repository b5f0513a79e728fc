import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbSandboxConfig } from '../../test/generators.js';
import { introduce, type Mesh, startMesh, startPair } from '../../test/mesh-fixture.js';
import { buildCard } from '../agent/agent-init.js';
import type { AgentCard, EnvelopeMetadata, SandboxRoutingConfig } from './schemas.js';

interface Member {
  id: string;
  sandbox: string | undefined;
  capable: boolean;
}

const IDS = ['ada', 'bob', 'cyd', 'dee', 'eve', 'fay'];
const SANDBOXES = [undefined, 'red', 'blue', 'green'] as const;

const arbMembers = (): fc.Arbitrary<Member[]> =>
  fc.tuple(
    ...IDS.map((id) =>
      fc.record({ id: fc.constant(id), sandbox: fc.constantFrom(...SANDBOXES), capable: fc.boolean() }),
    ),
  );

/** The agents of one node that one of them may reach, worked out from the rules as a set. */
function within(config: SandboxRoutingConfig, member: Member, members: readonly Member[]): Set<string> {
  const everyone = members.map(({ id }) => id);
  if (member.sandbox === undefined || !config.enforced) return new Set(everyone);
  const mates = members.filter(({ sandbox }) => sandbox === member.sandbox).map(({ id }) => id);
  const listed = [...(config.crossSandboxAllowList ?? []), ...(config.allow?.[member.sandbox] ?? [])];
  return new Set([...mates, ...listed.filter((id) => everyone.includes(id))]);
}

async function populate(config: SandboxRoutingConfig, members: readonly Member[]): Promise<Mesh> {
  const mesh = await startMesh({ sandbox: config });
  for (const { id, sandbox, capable } of members) mesh.join(id, { sandbox, capabilities: capable ? ['sum'] : [] });
  return mesh;
}

const scenario = () => [arbSandboxConfig(IDS), arbMembers(), fc.nat(IDS.length - 1)] as const;

describe('a message from inside a sandbox', () => {
  it('Feature: a2a-mcp-protocols, Property 29: Sandbox routing enforcement [P29 R10.1 R10.2 GEN.arbSandboxConfig]', async () => {
    await fc.assert(
      fc.asyncProperty(...scenario(), async (config, members, from) => {
        const mesh = await populate(config, members);
        const source = members[from]!;
        const allowed = within(config, source, members);
        for (const { id } of members) {
          mesh.events.length = 0;
          const before = mesh.inbox(id).length;
          const result = await mesh.send(source.id, id);
          expect(result.delivered).toBe(allowed.has(id));
          expect(mesh.inbox(id).length - before).toBe(allowed.has(id) ? 1 : 0);
          const violation = { code: 'SANDBOX_VIOLATION', sender: source.id, recipient: id };
          expect(mesh.eventsOf('security')).toEqual(allowed.has(id) ? [] : [expect.objectContaining(violation)]);
          if (!result.delivered) expect(result.error).toBe('SANDBOX_VIOLATION');
        }
        expect(mesh.handled).toBe(allowed.size);
      }),
      { numRuns: 200 },
    );
  });

  it('goes, as a broadcast, to exactly those it may reach [P29 R10.1 R10.2]', async () => {
    await fc.assert(
      fc.asyncProperty(...scenario(), async (config, members, from) => {
        const mesh = await populate(config, members);
        const source = members[from]!;
        const allowed = within(config, source, members);
        const result = await mesh.send(source.id, '*');
        const others = members.filter(({ id }) => id !== source.id).map(({ id }) => id);
        const reached = others.filter((id) => mesh.inbox(id).length === 1);
        const withheld = others.filter((id) => !allowed.has(id));
        expect(reached).toEqual(others.filter((id) => allowed.has(id)));
        expect(mesh.inbox(source.id)).toEqual([]);
        expect(mesh.eventsOf('security').map(({ recipient, code }) => [recipient, code])).toEqual(
          withheld.map((id) => [id, 'SANDBOX_VIOLATION']),
        );
        // The sender learns of those it may reach; the events have all.
        const counts = { delivered: reached.length, failed: 0 };
        const view = { ...counts, recipients: reached.length, withheld: 0, withheldByCode: {} };
        expect(result.broadcast).toEqual(view);
        const all = { ...counts, recipients: others.length, withheld: withheld.length };
        const [decision] = mesh.eventsOf('routing-decision');
        expect(decision).toMatchObject({ broadcast: all });
      }),
      { numRuns: 200 },
    );
  });

  it('goes, to a capability, to the first that offers it among those it may reach [P29 R10.1]', async () => {
    await fc.assert(
      fc.asyncProperty(...scenario(), async (config, members, from) => {
        const mesh = await populate(config, members);
        const source = members[from]!;
        const allowed = within(config, source, members);
        const first = members.find(({ id, capable }) => capable && id !== source.id && allowed.has(id));
        const result = await mesh.send(source.id, 'sum', { metadata: { routingHint: 'capability' } });
        expect(result.delivered ? result.targetAgentId : result.error).toBe(first?.id ?? 'CAPABILITY_NOT_FOUND');
        expect(mesh.handled).toBe(first ? 1 : 0);
        if (first) expect(mesh.inbox(first.id)).toHaveLength(1);
      }),
      { numRuns: 200 },
    );
  });

  it('learns nothing of others: hidden and unknown agents are the same to it [T-F14]', async () => {
    const { here, there } = await startPair();
    here.join('inmate', { sandbox: 'red' });
    here.join('hidden');
    there.join('remote');
    introduce(here, there);
    const told = async (recipient: string, metadata?: EnvelopeMetadata) => {
      const { latencyMs: _, ...result } = await here.send('inmate', recipient, { type: 'request', metadata });
      return JSON.parse(JSON.stringify(result).replaceAll(recipient, 'NAME'));
    };
    const unknown = await told('unknown');
    expect(unknown).toMatchObject({ delivered: false, error: 'SANDBOX_VIOLATION' });
    for (const name of ['hidden', 'remote']) expect(await told(name)).toEqual(unknown);
    expect(await told('remote@there')).toEqual(await told('unknown@there'));
    expect(await told('hidden@here')).toEqual(await told('unknown@here'));
    expect((await here.send('hidden', 'unknown')).error).toBe('AGENT_NOT_FOUND');
    expect((await here.send('inmate', '*')).broadcast).toEqual({
      recipients: 0,
      delivered: 0,
      withheld: 0,
      failed: 0,
      withheldByCode: {},
    });
  });

  it('stays inside as a reply too, though one from outside may come in [R10.1 E.SANDBOX_VIOLATION]', async () => {
    const mesh = await startMesh();
    mesh.join('outside');
    mesh.join('inmate', { sandbox: 'red' });
    expect((await mesh.send('outside', 'inmate', { type: 'request', thread: 't' })).delivered).toBe(true);
    const reply = await mesh.send('inmate', 'outside', { type: 'response', thread: 't' });
    expect(reply.error).toBe('SANDBOX_VIOLATION');
    expect(mesh.inbox('outside')).toEqual([]);
  });

  it('stays inside though its sender is L0 [R10.1]', async () => {
    const mesh = await startMesh();
    mesh.join('warden', { tier: 0, sandbox: 'red' });
    mesh.join('mate', { sandbox: 'red' });
    mesh.join('outside');
    const result = await mesh.send('warden', '*');
    expect(result.broadcast).toMatchObject({ recipients: 1, delivered: 1, withheld: 0, withheldByCode: {} });
    expect(mesh.inbox('outside')).toEqual([]);
  });

  it('obeys the rules in force when it is sent [R10.1 R10.2]', async () => {
    const mesh = await startMesh();
    mesh.join('inmate', { sandbox: 'red' });
    mesh.join('outside');
    const send = async () => (await mesh.send('inmate', 'outside')).error;
    expect(await send()).toBe('SANDBOX_VIOLATION');
    mesh.router.setSandboxConfig({ enforced: true, allow: { red: ['outside'] } });
    expect(await send()).toBeUndefined();
    mesh.router.setSandboxConfig({ enforced: true });
    expect(await send()).toBe('SANDBOX_VIOLATION');
    mesh.router.setSandboxConfig({ enforced: false });
    expect(await send()).toBeUndefined();
  });

  it('obeys the sandbox its sender has moved to [R10.1 R10.3]', async () => {
    const mesh = await startMesh();
    mesh.join('nomad', { sandbox: 'red' });
    mesh.join('mate', { sandbox: 'red' });
    expect((await mesh.send('nomad', 'mate')).delivered).toBe(true);
    mesh.join('nomad', { sandbox: 'blue', listens: false });
    expect((await mesh.send('nomad', 'mate')).error).toBe('SANDBOX_VIOLATION');
  });

  it('may go to an agent of this node whose full address is on the list [R10.1]', async () => {
    const mesh = await startMesh({ key: 'here', sandbox: { enforced: true, allow: { red: ['friend@here'] } } });
    mesh.join('inmate', { sandbox: 'red' });
    mesh.join('friend');
    expect((await mesh.send('inmate', 'friend')).delivered).toBe(true);
  });

  it('reaches no other node, unless its sandbox is shared or the full address is on its list [R10.1 R10.2]', async () => {
    const allow = { red: ['friend', 'pal@there'] };
    const { here, there } = await startPair({ sandbox: { enforced: true, allow } });
    here.join('inmate', { sandbox: 'red' });
    there.join('mate', { sandbox: 'red' });
    there.join('friend');
    there.join('pal');
    introduce(here, there);
    there.router.setSandboxConfig({ enforced: true, allow: { 'red@here': ['pal'] } });
    const send = async (to: string) => (await here.send('inmate', to)).error;
    expect(await send('mate@there')).toBe('SANDBOX_VIOLATION');
    expect(await send('friend@there')).toBe('SANDBOX_VIOLATION');
    expect(await send('pal@there')).toBeUndefined();
    here.router.setSandboxConfig({ enforced: true, shared: ['red'] });
    there.router.setSandboxConfig({ enforced: true, shared: ['red'] });
    expect(await send('mate@there')).toBeUndefined();
    expect([there.inbox('mate'), there.inbox('friend'), there.inbox('pal')].map((inbox) => inbox.length)).toEqual([
      1, 0, 1,
    ]);
  });
});

describe('a message from a sandbox of another node', () => {
  it('must be allowed by the rules of both nodes [P29 R10.1 R10.2]', async () => {
    const sandbox = fc.constantFrom(...SANDBOXES);
    const config = () => arbSandboxConfig(['target', 'target@there']);
    const listed = (rules: SandboxRoutingConfig, list: string, address: string) =>
      [...(rules.crossSandboxAllowList ?? []), ...(rules.allow?.[list] ?? [])].includes(address);
    await fc.assert(
      fc.asyncProperty(config(), config(), sandbox, sandbox, async (ours, theirs, from, to) => {
        const { here, there } = await startPair();
        here.router.setSandboxConfig(ours);
        there.router.setSandboxConfig(theirs);
        here.join('source', { sandbox: from });
        there.join('target', { sandbox: to });
        introduce(here, there);
        const spans = (rules: SandboxRoutingConfig) => from !== undefined && rules.shared!.includes(from);
        const free = (rules: SandboxRoutingConfig) =>
          from === undefined || !rules.enforced || (from === to && spans(rules));
        const leaves = free(ours) || listed(ours, from!, 'target@there');
        const list = spans(theirs) ? from! : `${from}@here`;
        const enters = free(theirs) || listed(theirs, list, 'target') || listed(theirs, list, 'target@there');

        const result = await here.send('source', 'target@there');
        const refusal = leaves ? 'DELIVERY_FAILED' : 'SANDBOX_VIOLATION';
        expect(result.error ?? 'delivered').toBe(leaves && enters ? 'delivered' : refusal);
        expect(there.inbox('target')).toHaveLength(leaves && enters ? 1 : 0);
        expect(here.eventsOf('security')).toHaveLength(leaves ? 0 : 1);
        expect(there.eventsOf('security')).toHaveLength(leaves && !enters ? 1 : 0);
      }),
      { numRuns: 300 },
    );
  });
});

describe('what an agent in a sandbox discovers', () => {
  const ids = (cards: readonly AgentCard[]) => cards.map(({ id }) => id);

  it('Feature: a2a-mcp-protocols, Property 30: Sandbox discovery filtering [P30 R10.3 R10.4 GEN.arbSandboxConfig]', async () => {
    await fc.assert(
      fc.asyncProperty(...scenario(), async (config, members, from) => {
        const { registry } = (await populate(config, members)).node;
        const viewer = members[from]!;
        const allowed = within(config, viewer, members);
        const visible = members.filter(({ id }) => allowed.has(id));
        const capable = ids(registry.listAll()).filter((id) =>
          visible.some((member) => member.id === id && member.capable),
        );
        expect(ids(registry.listAll(viewer.id))).toEqual(visible.map(({ id }) => id));
        expect(ids(registry.getLocalCards(viewer.id))).toEqual(visible.map(({ id }) => id));
        expect(registry.getRemoteCards(viewer.id)).toEqual([]);
        expect(ids(registry.findByTier(3, viewer.id))).toEqual(visible.map(({ id }) => id));
        expect(ids(registry.findByCapability('sum', viewer.id))).toEqual(capable);
        expect(registry.findFirstByCapability('sum', viewer.id)?.id).toBe(capable[0]);
        for (const sandbox of ['red', 'blue', 'green']) {
          const inside = visible.filter((member) => member.sandbox === sandbox).map(({ id }) => id);
          expect(ids(registry.findBySandbox(sandbox, viewer.id))).toEqual(inside);
        }
        for (const { id, sandbox } of members) {
          expect(registry.getById(id)?.sandboxId).toBe(sandbox);
          expect(registry.getById(id, viewer.id)?.id).toBe(allowed.has(id) ? id : undefined);
          if (allowed.has(id)) expect(registry.requireById(id, viewer.id).id).toBe(id);
          else
            expect(() => registry.requireById(id, viewer.id)).toThrow(
              expect.objectContaining({ code: 'AGENT_NOT_FOUND' }),
            );
        }
      }),
      { numRuns: 200 },
    );
  });

  it('leaves out agents of other nodes, unless the sandbox is shared or the address is on its list [R10.4]', async () => {
    const { node, router } = await startMesh();
    node.agent({ id: 'inmate', sandbox: 'red' });
    node.registry.mergeRemote(buildCard({ id: 'mate', sandbox: 'red' }, 0), 'there');
    node.registry.mergeRemote(buildCard({ id: 'pal' }, 0), 'there');
    const seen = () => node.registry.getRemoteCards('inmate').map(({ id }) => id);
    expect(seen()).toEqual([]);
    router.setSandboxConfig({ enforced: true, shared: ['red'] });
    expect(seen()).toEqual(['mate']);
    router.setSandboxConfig({ enforced: true, allow: { red: ['pal@there'] } });
    expect(seen()).toEqual(['pal']);
  });

  it('is tagged with the sandbox it was registered in [R10.3]', async () => {
    const { node } = await startMesh();
    expect(node.agent({ id: 'inmate', sandbox: 'red' }).card.sandboxId).toBe('red');
    expect(node.agent({ id: 'free' }).card.sandboxId).toBeUndefined();
    expect(ids(node.registry.findBySandbox('red'))).toEqual(['inmate']);
  });

  it('does not depend on tiers [R10.4]', async () => {
    const { node } = await startMesh();
    node.agent({ id: 'strategist', tier: 1, sandbox: 'red' });
    node.agent({ id: 'specialist', tier: 3, sandbox: 'red' });
    expect(ids(node.registry.listAll('strategist'))).toEqual(['strategist', 'specialist']);
  });
});

describe('a request from outside to an agent in a sandbox', () => {
  it('fails at once, since the answer could not come back [R10.1 E.SANDBOX_VIOLATION]', async () => {
    const mesh = await startMesh();
    let asked = 0;
    const outside = mesh.node.agent({ id: 'outside' });
    mesh.node.agent({ id: 'inmate', sandbox: 'red' }).onRequest(() => ++asked);
    const before = mesh.runtime.now();
    await expect(outside.request('inmate', null)).rejects.toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(mesh.runtime.now()).toBe(before);
    expect(asked).toBe(0);
    expect(mesh.eventsOf('security')).toHaveLength(1);
    expect(mesh.node.threads.waiting).toBe(0);
  });

  it('is answered when the sandbox allows the one who asks [R10.1]', async () => {
    const mesh = await startMesh({ sandbox: { enforced: true, allow: { red: ['outside'] } } });
    const outside = mesh.node.agent({ id: 'outside' });
    mesh.node.agent({ id: 'inmate', sandbox: 'red' }).onRequest(() => 'hello');
    expect(await outside.request('inmate', null)).toBe('hello');
  });

  it('goes, to a capability, to one that can answer [R10.1 R4.3]', async () => {
    const mesh = await startMesh();
    const outside = mesh.node.agent({ id: 'outside' });
    const serve = (id: string, sandbox?: string) =>
      mesh.node.agent({ id, sandbox, capabilities: ['sum'] }).onRequest(() => id);
    serve('inmate', 'red');
    await expect(outside.request({ capability: 'sum' }, null)).rejects.toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
    serve('free');
    expect(await outside.request({ capability: 'sum' }, null)).toBe('free');
  });

  it('that reads a stream fails at once too [R10.1]', async () => {
    const mesh = await startMesh();
    const outside = mesh.node.agent({ id: 'outside' });
    mesh.node.agent({ id: 'inmate', sandbox: 'red' }).onRequest(() => null);
    await expect(outside.stream('inmate', null).next()).rejects.toMatchObject({ code: 'SANDBOX_VIOLATION' });
  });
});

describe('a message to a capability that only agents outside the sandbox have', () => {
  it('is refused and leaves one security event [R10.2 T-C8]', async () => {
    const mesh = await startMesh();
    mesh.join('inmate', { sandbox: 'red' });
    mesh.join('adder', { capabilities: ['sum'] });
    mesh.join('other', { capabilities: ['sum'], sandbox: 'blue' });
    const metadata = { routingHint: 'capability' } as const;
    expect(await mesh.send('inmate', 'sum', { metadata })).toMatchObject({ error: 'CAPABILITY_NOT_FOUND' });
    const violation = { sender: 'inmate', recipient: 'adder', code: 'SANDBOX_VIOLATION' };
    expect(mesh.eventsOf('security')).toMatchObject([violation]);
    mesh.join('cellmate', { capabilities: ['sum'], sandbox: 'red' });
    expect(await mesh.send('inmate', 'sum', { metadata })).toMatchObject({
      delivered: true,
      targetAgentId: 'cellmate',
    });
    expect(mesh.eventsOf('security')).toHaveLength(1);
  });
});
