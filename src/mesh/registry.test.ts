import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbAgentCard, arbAgentCards, arbCapabilityDescriptor, arbNodeKey } from '../../test/generators.js';
import { EclipticError } from '../runtime/errors.js';
import { AgentRegistry } from './registry.js';
import { type AgentCard, AgentCardSchema, type AgentTier, CapabilityDescriptorSchema } from './schemas.js';

const HOME = 'homenode';
const RUNS = { numRuns: 200 };

function card(fields: Partial<AgentCard> = {}): AgentCard {
  return {
    id: 'mars',
    name: 'MARS',
    version: '1.0.0',
    description: 'writes code',
    tier: 2,
    protocols: ['a2a/1.0'],
    endpoints: [{ transport: 'local' }],
    capabilities: [capability('codegen.react')],
    revision: 0,
    origin: 'local',
    lastSeenAt: 1_577_836_800_000,
    ...fields,
  };
}

function capability(id: string) {
  return { id, name: id, description: '', inputSchema: { type: 'object' }, outputSchema: { type: 'string' } };
}

/** The typed error that the action ends with; anything else fails the test. */
function refusal(action: () => unknown): EclipticError {
  try {
    action();
  } catch (error) {
    if (error instanceof EclipticError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

function faultsOf(error: EclipticError): string[] {
  return error.details.faults as string[];
}

function faultyFields(error: EclipticError): Set<string> {
  return new Set(faultsOf(error).map((fault) => fault.slice(0, fault.indexOf(':'))));
}

function addresses(cards: readonly AgentCard[]): string[] {
  return cards.map(({ id, node }) => (node === undefined ? id : `${id}@${node}`));
}

function isFrozenThroughout(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isFrozenThroughout);
}

describe('storing a card', () => {
  it('keeps every field of a card [R1.1]', () => {
    const registry = new AgentRegistry();
    const full = card({
      sandboxId: 'red',
      endpoints: [{ transport: 'local' }, { transport: 'websocket', address: 'ws://localhost:1' }],
      capabilities: [capability('codegen.react'), capability('codegen.css')],
    });
    registry.register(full);
    expect(registry.getById('mars')).toEqual(full);
  });

  it('returns the card as it was stored [R1.1]', () => {
    const registry = new AgentRegistry();
    expect(registry.register(card())).toBe(registry.getById('mars'));
    expect(registry.mergeRemote(card(), 'node1')).toBe(registry.getById('mars@node1'));
  });

  it('Feature: a2a-mcp-protocols, Property 1: Agent Card registration and retrieval [P1 R1.1 R1.2 R1.3]', () => {
    fc.assert(
      fc.property(arbAgentCards(), (cards) => {
        const registry = new AgentRegistry();
        for (const each of cards) registry.register(each);
        for (const each of cards) {
          expect(registry.getById(each.id)).toEqual(each);
          expect(registry.requireById(each.id)).toEqual(each);
          for (const { id } of each.capabilities) expect(registry.findByCapability(id)).toContainEqual(each);
        }
      }),
      RUNS,
    );
  });

  it('generates only cards and capabilities that the schemas accept as they are [GEN.arbAgentCard GEN.arbCapabilityDescriptor]', () => {
    fc.assert(
      fc.property(arbAgentCard(), arbCapabilityDescriptor(), (anyCard, anyCapability) => {
        expect(AgentCardSchema.parse(anyCard)).toEqual(anyCard);
        expect(CapabilityDescriptorSchema.parse(anyCapability)).toEqual(anyCapability);
      }),
      RUNS,
    );
  });

  it('generates cards of every tier, with and without a sandbox, capabilities and endpoints [GEN.arbAgentCard]', () => {
    const cards = fc.sample(arbAgentCard(), { numRuns: 500, seed: 7 });
    expect(new Set(cards.map(({ tier }) => tier))).toEqual(new Set([0, 1, 2, 3]));
    expect(new Set(cards.map(({ sandboxId }) => sandboxId === undefined)).size).toBe(2);
    expect(new Set(cards.map(({ capabilities }) => capabilities.length)).size).toBeGreaterThan(2);
    expect(new Set(cards.flatMap(({ endpoints }) => endpoints.map(({ transport }) => transport))).size).toBe(3);
  });

  it('keeps its own copy, which the caller cannot change [R1.1]', () => {
    const registry = new AgentRegistry();
    const own = card({ capabilities: [capability('codegen.react')], protocols: ['a2a/1.0'] });
    registry.register(own);
    const merged = structuredClone(card({ id: 'venus' }));
    registry.mergeRemote(merged, 'node1');
    own.capabilities.push(capability('root.access'));
    (own.capabilities[0]!.inputSchema as { type: string }).type = 'changed';
    own.protocols.push('other');
    merged.capabilities.length = 0;
    expect(registry.getById('mars')).toEqual(card());
    expect(registry.getById('venus')?.capabilities).toEqual([capability('codegen.react')]);
    expect(registry.findByCapability('root.access')).toEqual([]);
  });

  it('freezes a card to its last member, when registered, updated, merged and read back [R1.1]', () => {
    const registry = new AgentRegistry();
    const deep = card({ capabilities: [{ ...capability('a.b'), inputSchema: { properties: { x: [{ y: 1 }] } } }] });
    registry.register(deep);
    expect(isFrozenThroughout(registry.getById('mars'))).toBe(true);
    registry.register(deep);
    expect(isFrozenThroughout(registry.getById('mars'))).toBe(true);
    registry.mergeRemote(deep, 'node1');
    expect(isFrozenThroughout(registry.getById('mars@node1'))).toBe(true);
    const restored = AgentRegistry.deserialize(registry.serialize());
    expect(restored.listAll().every(isFrozenThroughout)).toBe(true);
  });

  it('answers a list query with a list that the caller may change without harm [R1.2]', () => {
    const registry = new AgentRegistry();
    registry.register(card());
    registry.findByCapability('codegen.react').pop();
    registry.findByTier(2).pop();
    registry.listAll().pop();
    expect(registry.findByCapability('codegen.react')).toHaveLength(1);
    expect(registry.findByTier(2)).toHaveLength(1);
    expect(registry.listAll()).toHaveLength(1);
  });
});

describe('refusing a card', () => {
  const required = ['id', 'name', 'version', 'tier', 'capabilities'] as const;

  it('Feature: a2a-mcp-protocols, Property 2: Agent Card validation rejects incomplete cards [P2 R1.4 E.INVALID_CARD]', () => {
    fc.assert(
      fc.property(
        arbAgentCard(),
        fc.subarray([...required], { minLength: 1 }),
        arbNodeKey(),
        (whole, missing, node) => {
          const incomplete: Record<string, unknown> = { ...whole };
          for (const field of missing) delete incomplete[field];
          const registry = new AgentRegistry();
          for (const enter of [
            () => registry.register(incomplete as AgentCard),
            () => registry.mergeRemote(incomplete as AgentCard, node),
          ]) {
            const error = refusal(enter);
            expect(error.code).toBe('INVALID_CARD');
            expect(faultyFields(error)).toEqual(new Set(missing));
          }
          expect(registry.size).toBe(0);
        },
      ),
      RUNS,
    );
  });

  it('lists every fault, not only the first [R1.4 E.INVALID_CARD]', () => {
    const broken = {
      ...card(),
      id: 'a@b',
      name: '',
      tier: 4,
      protocols: 'a2a',
      capabilities: [{ id: 'x' }],
      revision: -1,
    };
    const error = refusal(() => new AgentRegistry().register(broken as unknown as AgentCard));
    expect(error.code).toBe('INVALID_CARD');
    expect(faultyFields(error)).toEqual(
      new Set([
        'id',
        'name',
        'tier',
        'protocols',
        'revision',
        'capabilities.0.name',
        'capabilities.0.description',
        'capabilities.0.inputSchema',
        'capabilities.0.outputSchema',
      ]),
    );
  });

  it.each([
    ['an id with an @', { id: 'mars@node1' }],
    ['an id that is the broadcast marker', { id: '*' }],
    ['an id with a dot', { id: 'codegen.react' }],
    ['an id that poisons prototypes', { id: '__proto__' }],
    ['an id of 65 characters', { id: 'a'.repeat(65) }],
    ['an empty id', { id: '' }],
    ['a name of 257 characters', { name: 'a'.repeat(257) }],
    ['a description of 4,097 characters', { description: 'a'.repeat(4_097) }],
    ['a tier that is none', { tier: 1.5 }],
    ['an unknown transport', { endpoints: [{ transport: 'pigeon' }] }],
    ['257 capabilities', { capabilities: Array.from({ length: 257 }, (_, n) => capability(`a.${n}`)) }],
    ['a capability schema that is not JSON', { capabilities: [{ ...capability('a.b'), inputSchema: () => 1 }] }],
    [
      'a capability schema above 64 KiB',
      { capabilities: [{ ...capability('a.b'), outputSchema: 'x'.repeat(65_535) }] },
    ],
    ['a revision that is no integer', { revision: 0.5 }],
    ['a time before all time', { lastSeenAt: -1 }],
    ['an empty sandbox', { sandboxId: '' }],
    ['an origin that is none', { origin: 'elsewhere' }],
  ])('refuses %s, and stores nothing [R1.4 E.INVALID_CARD]', (_, fields) => {
    const registry = new AgentRegistry();
    const error = refusal(() => registry.register({ ...card(), ...fields } as AgentCard));
    expect(error.code).toBe('INVALID_CARD');
    expect(faultsOf(error)).toHaveLength(1);
    expect(registry.size).toBe(0);
    expect(registry.listAll()).toEqual([]);
  });

  it('accepts a card at the limits [R1.4]', () => {
    const largest = card({
      id: 'a'.repeat(64),
      name: 'a'.repeat(256),
      description: 'a'.repeat(4_096),
      sandboxId: 'a'.repeat(128),
      revision: Number.MAX_SAFE_INTEGER,
      capabilities: Array.from({ length: 256 }, (_, n) => ({
        ...capability(`a.${n}`),
        outputSchema: n === 0 ? 'x'.repeat(65_534) : {},
      })),
    });
    expect(new AgentRegistry().register(largest)).toEqual(largest);
  });

  it('registers no card that says it is remote, and merges none without a node [E.INVALID_CARD]', () => {
    const registry = new AgentRegistry();
    const remote = card({ origin: 'remote', node: 'node1' });
    expect(refusal(() => registry.register(remote)).code).toBe('INVALID_CARD');
    expect(refusal(() => registry.register(card({ node: 'node1' }))).code).toBe('INVALID_CARD');
    expect(refusal(() => registry.mergeRemote(card(), '')).code).toBe('INVALID_CARD');
    expect(refusal(() => registry.mergeRemote(card(), undefined as unknown as string)).code).toBe('INVALID_CARD');
    expect(registry.size).toBe(0);
  });

  it('leaves the stored card and all indexes as they were when an update is refused [R1.4 R1.5]', () => {
    const registry = new AgentRegistry();
    registry.register(card({ sandboxId: 'red' }));
    const before = registry.getById('mars');
    const broken = { ...card({ tier: 1, capabilities: [capability('other.thing')] }), name: 7 };
    refusal(() => registry.register(broken as unknown as AgentCard));
    expect(registry.getById('mars')).toBe(before);
    expect(registry.findByCapability('codegen.react')).toEqual([before]);
    expect(registry.findByCapability('other.thing')).toEqual([]);
    expect(registry.findByTier(1)).toEqual([]);
    expect(registry.findBySandbox('red')).toEqual([before]);
  });
});

describe('registering again', () => {
  it('Feature: a2a-mcp-protocols, Property 3: Duplicate Agent Card updates revision [P3 R1.5]', () => {
    fc.assert(
      fc.property(arbAgentCard(), arbAgentCard(), (first, other) => {
        const registry = new AgentRegistry();
        const second = { ...other, id: first.id };
        registry.register(first);
        registry.register(second);
        expect(registry.size).toBe(1);
        expect(registry.listAll()).toEqual([{ ...second, revision: first.revision + 1 }]);
      }),
      RUNS,
    );
  });

  it('counts every further registration [R1.5]', () => {
    const registry = new AgentRegistry();
    for (let times = 0; times < 5; times++) registry.register(card({ revision: 3 }));
    expect(registry.getById('mars')?.revision).toBe(7);
  });

  it('moves the agent in every index, and leaves no trace of the old card [R1.2 R1.5]', () => {
    const registry = new AgentRegistry();
    registry.register(card({ sandboxId: 'red', capabilities: [capability('a.a'), capability('b.b')] }));
    registry.register(card({ sandboxId: 'blue', tier: 3, capabilities: [capability('b.b'), capability('c.c')] }));
    const now = registry.getById('mars');
    expect(registry.findByCapability('a.a')).toEqual([]);
    expect(registry.findByCapability('b.b')).toEqual([now]);
    expect(registry.findByCapability('c.c')).toEqual([now]);
    expect(registry.findByTier(2)).toEqual([]);
    expect(registry.findByTier(3)).toEqual([now]);
    expect(registry.findBySandbox('red')).toEqual([]);
    expect(registry.findBySandbox('blue')).toEqual([now]);
    registry.register(card());
    expect(registry.findBySandbox('blue')).toEqual([]);
  });

  it('keeps the place of the first registration [R1.5]', () => {
    const registry = new AgentRegistry();
    for (const id of ['a', 'b', 'c']) registry.register(card({ id }));
    registry.register(card({ id: 'a', name: 'A again' }));
    expect(addresses(registry.listAll())).toEqual(['a', 'b', 'c']);
    expect(addresses(registry.findByCapability('codegen.react'))).toEqual(['a', 'b', 'c']);
  });

  it('starts afresh after the agent was unregistered [R1.5]', () => {
    const registry = new AgentRegistry();
    for (const id of ['a', 'b']) registry.register(card({ id }));
    registry.register(card({ id: 'a' }));
    expect(registry.unregister('a')).toBe(true);
    registry.register(card({ id: 'a' }));
    expect(registry.getById('a')?.revision).toBe(0);
    expect(addresses(registry.listAll())).toEqual(['b', 'a']);
    expect(addresses(registry.findByCapability('codegen.react'))).toEqual(['b', 'a']);
  });

  it('stores nothing that it could not read back, even at the highest revision [R1.5 R1.6]', () => {
    const registry = new AgentRegistry();
    registry.register(card({ revision: Number.MAX_SAFE_INTEGER }));
    try {
      registry.register(card({ revision: 0 }));
    } catch (error) {
      expect(error).toBeInstanceOf(EclipticError);
    }
    expect(AgentRegistry.deserialize(registry.serialize()).listAll()).toEqual(registry.listAll());
  });
});

describe('unregistering', () => {
  it('empties every index [R1.2 R1.3]', () => {
    const registry = new AgentRegistry();
    registry.register(card({ sandboxId: 'red' }));
    registry.mergeRemote(card({ sandboxId: 'red' }), 'node1');
    expect(registry.unregister('mars')).toBe(true);
    expect(registry.unregister('mars@node1')).toBe(true);
    expect(registry.size).toBe(0);
    expect(registry.listAll()).toEqual([]);
    expect(registry.getLocalCards()).toEqual([]);
    expect(registry.getRemoteCards()).toEqual([]);
    expect(registry.findByCapability('codegen.react')).toEqual([]);
    expect(registry.findFirstByCapability('codegen.react')).toBeUndefined();
    expect(registry.findByTier(2)).toEqual([]);
    expect(registry.findBySandbox('red')).toEqual([]);
    expect(registry.getById('mars')).toBeUndefined();
    expect(registry.getById('mars@node1')).toBeUndefined();
  });

  it('reports whether there was an agent to remove, and leaves all others [R1.3]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    registry.register(card());
    registry.mergeRemote(card(), 'node1');
    registry.mergeRemote(card({ id: 'venus' }), 'node1');
    expect(registry.unregister('pluto')).toBe(false);
    expect(registry.unregister('mars@node2')).toBe(false);
    expect(registry.unregister('venus')).toBe(false);
    expect(registry.unregister(`mars@${HOME}`)).toBe(true);
    expect(registry.unregister('mars')).toBe(false);
    expect(addresses(registry.listAll())).toEqual(['mars@node1', 'venus@node1']);
  });
});

describe('merging another node’s card', () => {
  it('Feature: a2a-mcp-protocols, Property 5: Remote Agent Card merge preserves origin [P5]', () => {
    fc.assert(
      fc.property(arbAgentCard(), arbNodeKey(), (remote, node) => {
        const registry = new AgentRegistry();
        registry.mergeRemote(remote, node);
        expect(registry.listAll()).toEqual([{ ...remote, origin: 'remote', node }]);
        expect(registry.getRemoteCards()).toEqual(registry.listAll());
        expect(registry.getLocalCards()).toEqual([]);
      }),
      RUNS,
    );
  });

  it('stores it under the node it came from, whatever the card says [P5]', () => {
    const registry = new AgentRegistry();
    registry.mergeRemote(card({ origin: 'remote', node: 'node9' }), 'node1');
    expect(addresses(registry.listAll())).toEqual(['mars@node1']);
    expect(registry.getById('mars@node9')).toBeUndefined();
  });

  it('takes no remote card in the name of this node [E.INVALID_CARD]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    registry.register(card());
    expect(refusal(() => registry.mergeRemote(card({ name: 'impostor' }), HOME)).code).toBe('INVALID_CARD');
    expect(registry.listAll()).toEqual([card()]);
  });

  it('lets agents of the same id on two nodes and here live side by side [R1.3 P5]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    registry.mergeRemote(card({ name: 'one' }), 'node1');
    registry.register(card({ name: 'here' }));
    registry.mergeRemote(card({ name: 'two' }), 'node2');
    expect(registry.size).toBe(3);
    expect(registry.getById('mars')?.name).toBe('here');
    expect(registry.getById(`mars@${HOME}`)?.name).toBe('here');
    expect(registry.getById('mars@node1')?.name).toBe('one');
    expect(registry.getById('mars@node2')?.name).toBe('two');
  });

  it('moves no other card, however high the revision [R1.3 P5]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    registry.register(card({ name: 'here' }));
    registry.mergeRemote(card({ name: 'one', revision: 5 }), 'node1');
    registry.mergeRemote(card({ name: 'impostor', revision: Number.MAX_SAFE_INTEGER }), 'node2');
    expect(registry.getById('mars')?.name).toBe('here');
    expect(registry.getById('mars@node1')).toMatchObject({ name: 'one', revision: 5 });
    registry.register(card({ name: 'here again' }));
    expect(registry.getById('mars')).toMatchObject({ name: 'here again', revision: 1 });
  });

  it('changes nothing for an older revision from the same node, and follows an equal or newer one [R1.5 P5]', () => {
    const registry = new AgentRegistry();
    const stored = registry.mergeRemote(card({ name: 'five', revision: 5 }), 'node1');
    expect(registry.mergeRemote(card({ name: 'four', revision: 4, tier: 0 }), 'node1')).toBe(stored);
    expect(registry.getById('mars@node1')).toBe(stored);
    expect(registry.findByTier(0)).toEqual([]);
    registry.mergeRemote(card({ name: 'five again', revision: 5 }), 'node1');
    expect(registry.getById('mars@node1')).toMatchObject({ name: 'five again', revision: 5 });
    registry.mergeRemote(card({ name: 'nine', revision: 9, tier: 3, capabilities: [] }), 'node1');
    expect(registry.getById('mars@node1')).toMatchObject({ name: 'nine', revision: 9 });
    expect(registry.findByTier(2)).toEqual([]);
    expect(registry.findByCapability('codegen.react')).toEqual([]);
    expect(registry.size).toBe(1);
  });
});

describe('finding one agent', () => {
  it('fails with AGENT_NOT_FOUND and the id for an unknown id or address [R1.3 E.AGENT_NOT_FOUND]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    registry.mergeRemote(card(), 'node1');
    for (const unknown of ['pluto', 'pluto@node1', 'mars@node2', `mars@${HOME}`, '', '*', '__proto__', 'toString']) {
      expect(registry.getById(unknown)).toBeUndefined();
      const error = refusal(() => registry.requireById(unknown));
      expect(error.code).toBe('AGENT_NOT_FOUND');
      expect(error.details.agentId).toBe(unknown);
    }
  });

  it('takes a plain id for the local agent, else for the only remote one [R1.3]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    const remote = registry.mergeRemote(card(), 'node1');
    expect(registry.requireById('mars')).toBe(remote);
    const local = registry.register(card());
    expect(registry.requireById('mars')).toBe(local);
    registry.unregister('mars');
    expect(registry.requireById('mars')).toBe(remote);
  });

  it('refuses a plain id that several nodes have as AMBIGUOUS_AGENT, with the candidates [R1.3]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    registry.mergeRemote(card(), 'node1');
    registry.mergeRemote(card(), 'node2');
    registry.mergeRemote(card({ id: 'venus' }), 'node2');
    expect(registry.getById('mars')).toBeUndefined();
    const error = refusal(() => registry.requireById('mars'));
    expect(error.code).toBe('AMBIGUOUS_AGENT');
    expect(error.details).toEqual({ agentId: 'mars', candidates: ['mars@node1', 'mars@node2'] });
    registry.unregister('mars@node1');
    expect(registry.requireById('mars').node).toBe('node2');
  });

  it('does not know an address written in full as its own without a node key [R1.3]', () => {
    const registry = new AgentRegistry();
    registry.register(card());
    expect(registry.getById(`mars@${HOME}`)).toBeUndefined();
  });

  it('names to a sandboxed viewer no agent that it may not discover, not even as a candidate [R10.4]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    registry.register(card({ id: 'boxed', sandboxId: 'red' }));
    registry.mergeRemote(card(), 'node1');
    expect(refusal(() => registry.requireById('mars', 'boxed')).code).toBe('AGENT_NOT_FOUND');
    registry.mergeRemote(card(), 'node2');
    const error = refusal(() => registry.requireById('mars', 'boxed'));
    expect(JSON.stringify(error)).not.toContain('node1');
    expect(error.code).toBe('AGENT_NOT_FOUND');
  });
});

describe('finding by capability, tier and sandbox', () => {
  it('returns every card that offers the capability, and no other [R1.2]', () => {
    const registry = new AgentRegistry();
    registry.register(card({ id: 'a', capabilities: [capability('x.x'), capability('x.x'), capability('y.y')] }));
    registry.register(card({ id: 'b', capabilities: [capability('y.y')] }));
    registry.mergeRemote(card({ id: 'c', capabilities: [capability('x.x')] }), 'node1');
    expect(addresses(registry.findByCapability('x.x'))).toEqual(['a', 'c@node1']);
    expect(addresses(registry.findByCapability('y.y'))).toEqual(['a', 'b']);
    for (const other of ['x', 'x.', 'X.X', '', '__proto__']) expect(registry.findByCapability(other)).toEqual([]);
  });

  it('prefers local to remote agents, then the earliest registered [R1.2]', () => {
    const registry = new AgentRegistry();
    registry.mergeRemote(card({ id: 'a' }), 'node1');
    registry.mergeRemote(card({ id: 'b' }), 'node1');
    expect(registry.findFirstByCapability('codegen.react')?.id).toBe('a');
    registry.register(card({ id: 'z' }));
    registry.register(card({ id: 'y' }));
    expect(registry.findFirstByCapability('codegen.react')?.id).toBe('z');
    expect(addresses(registry.findByCapability('codegen.react'))).toEqual(['z', 'y', 'a@node1', 'b@node1']);
    registry.unregister('z');
    expect(registry.findFirstByCapability('codegen.react')?.id).toBe('y');
    registry.unregister('y');
    registry.unregister('a@node1');
    expect(registry.findFirstByCapability('codegen.react')?.id).toBe('b');
  });

  it('finds by tier and by sandbox [R1.2]', () => {
    const registry = new AgentRegistry();
    registry.register(card({ id: 'a', tier: 0, sandboxId: 'red' }));
    registry.register(card({ id: 'b', tier: 1 }));
    registry.mergeRemote(card({ id: 'c', tier: 0, sandboxId: 'red' }), 'node1');
    expect(addresses(registry.findByTier(0))).toEqual(['a', 'c@node1']);
    expect(addresses(registry.findByTier(1))).toEqual(['b']);
    expect(addresses(registry.findBySandbox('red'))).toEqual(['a', 'c@node1']);
    expect(registry.findBySandbox('blue')).toEqual([]);
  });
});

describe('writing the registry as JSON and reading it back', () => {
  it('Feature: a2a-mcp-protocols, Property 4: Agent Card serialization round trip [P4 R1.6]', () => {
    fc.assert(
      fc.property(arbAgentCards(), arbAgentCards(0), arbNodeKey(), (local, remote, node) => {
        const registry = new AgentRegistry();
        for (const each of local) registry.register(each);
        for (const each of remote) registry.mergeRemote(each, node);
        const restored = AgentRegistry.deserialize(registry.serialize());
        expect(restored.listAll()).toEqual([...local, ...remote.map((each) => ({ ...each, origin: 'remote', node }))]);
      }),
      RUNS,
    );
  });

  it('loses neither origin, node, revision nor order [R1.6]', () => {
    const registry = new AgentRegistry({ nodeKey: HOME });
    registry.mergeRemote(card({ id: 'z', revision: 8 }), 'node1');
    registry.register(card({ id: 'b' }));
    registry.register(card({ id: 'a' }));
    registry.register(card({ id: 'b', sandboxId: 'red' }));
    registry.mergeRemote(card({ id: 'b', revision: 2 }), 'node2');
    const restored = AgentRegistry.deserialize(registry.serialize(), { nodeKey: HOME });
    expect(restored.listAll()).toEqual(registry.listAll());
    expect(addresses(restored.listAll())).toEqual(['z@node1', 'b', 'a', 'b@node2']);
    expect(restored.listAll().map(({ revision }) => revision)).toEqual([8, 1, 0, 2]);
    expect(addresses(restored.findByCapability('codegen.react'))).toEqual(['b', 'a', 'z@node1', 'b@node2']);
    expect(restored.findBySandbox('red')).toEqual(registry.findBySandbox('red'));
    expect(restored.requireById(`b@${HOME}`).origin).toBe('local');
    expect(restored.serialize()).toBe(registry.serialize());
    expect(restored.mergeRemote(card({ id: 'z', revision: 7 }), 'node1').revision).toBe(8);
  });

  it('reads an empty registry [R1.6]', () => {
    expect(AgentRegistry.deserialize(new AgentRegistry().serialize()).size).toBe(0);
  });

  it.each([[0], [2], [-1], [1.5], ['1'], [null], [undefined], [[]], [{ toString: 'none' }]])(
    'refuses a registry of version %j as SCHEMA_VERSION_MISMATCH, with both versions [R13.7 E.SCHEMA_VERSION_MISMATCH]',
    (schemaVersion) => {
      const error = refusal(() => AgentRegistry.deserialize(JSON.stringify({ schemaVersion, cards: [] })));
      expect(error.code).toBe('SCHEMA_VERSION_MISMATCH');
      expect(error.details).toEqual({ expected: 1, found: schemaVersion });
    },
  );

  it('refuses text that is not JSON, or holds no cards, or one bad card among good ones [R1.4 R1.6 E.INVALID_CARD]', () => {
    const texts = [
      '',
      '{',
      'undefined',
      '{"schemaVersion":1}',
      '{"schemaVersion":1,"cards":{}}',
      '{"schemaVersion":1,"cards":[null]}',
      JSON.stringify({ schemaVersion: 1, cards: [card(), { ...card({ id: 'venus' }), tier: 9 }] }),
      JSON.stringify({ schemaVersion: 1, cards: [card({ origin: 'remote' })] }),
      JSON.stringify({ schemaVersion: 1, cards: [card({ node: 'node1' })] }),
    ];
    for (const text of texts) expect(refusal(() => AgentRegistry.deserialize(text)).code).toBe('INVALID_CARD');
  });

  it('reads no remote card in the name of this node, as it would merge none [R1.6 E.INVALID_CARD]', () => {
    const elsewhere = new AgentRegistry({ nodeKey: 'node1' });
    elsewhere.register(card());
    elsewhere.mergeRemote(card({ name: 'impostor' }), HOME);
    expect(refusal(() => AgentRegistry.deserialize(elsewhere.serialize(), { nodeKey: HOME })).code).toBe(
      'INVALID_CARD',
    );
  });
});

describe('against a model', () => {
  interface Known {
    readonly address: string;
    card: AgentCard;
  }

  /** The registry as one list that every question searches from end to end. */
  class NaiveRegistry {
    known: Known[] = [];

    register(next: AgentCard): void {
      const existing = this.at(next.id);
      if (existing) existing.card = { ...next, revision: existing.card.revision + 1 };
      else this.known.push({ address: next.id, card: next });
    }

    mergeRemote(next: AgentCard, node: string): void {
      const address = `${next.id}@${node}`;
      const merged: AgentCard = { ...next, origin: 'remote', node };
      const existing = this.at(address);
      if (!existing) this.known.push({ address, card: merged });
      else if (existing.card.revision <= next.revision) existing.card = merged;
    }

    unregister(name: string): boolean {
      const gone = this.at(name.replace(`@${HOME}`, ''));
      this.known = this.known.filter((each) => each !== gone);
      return gone !== undefined;
    }

    /** Everything that the name could mean. */
    candidates(name: string): AgentCard[] {
      const exact = this.at(name.replace(`@${HOME}`, ''));
      if (exact) return [exact.card];
      return this.cards((each) => each.origin === 'remote' && each.id === name);
    }

    cards(matches: (card: AgentCard) => boolean = () => true): AgentCard[] {
      return this.known.map((each) => each.card).filter(matches);
    }

    preferred(matches: (card: AgentCard) => boolean): AgentCard[] {
      const found = this.cards(matches);
      return [...found.filter((each) => each.origin === 'local'), ...found.filter((each) => each.origin === 'remote')];
    }

    private at(address: string): Known | undefined {
      return this.known.find((each) => each.address === address);
    }
  }

  const ids = ['a', 'b', 'c'];
  const nodes = ['node1', 'node2'];
  const names = ids.flatMap((id) => [id, `${id}@${HOME}`, ...nodes.map((node) => `${id}@${node}`)]);
  const capabilityIds = ['x.x', 'y.y', 'z.z'];
  const tiers: AgentTier[] = [0, 1, 2, 3];
  const sandboxes = ['red', 'blue'];

  const arbCrowdedCard = fc
    .record({
      id: fc.constantFrom(...ids),
      name: fc.string({ minLength: 1, maxLength: 5 }),
      tier: fc.constantFrom(...tiers),
      revision: fc.nat(5),
      sandboxId: fc.constantFrom('red', 'blue', undefined),
      capabilities: fc.array(fc.constantFrom(...capabilityIds), { maxLength: 4 }),
    })
    .map(({ capabilities, ...fields }) => card({ ...fields, capabilities: capabilities.map(capability) }));

  const arbStep = fc.oneof(
    { weight: 3, arbitrary: fc.record({ does: fc.constant('register' as const), card: arbCrowdedCard }) },
    {
      weight: 3,
      arbitrary: fc.record({
        does: fc.constant('merge' as const),
        card: arbCrowdedCard,
        node: fc.constantFrom(...nodes),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ does: fc.constant('unregister' as const), name: fc.constantFrom(...names) }),
    },
  );

  function expectSame(registry: AgentRegistry, model: NaiveRegistry): void {
    expect(registry.size).toBe(model.known.length);
    expect(registry.listAll()).toEqual(model.cards());
    expect(registry.getLocalCards()).toEqual(model.cards((each) => each.origin === 'local'));
    expect(registry.getRemoteCards()).toEqual(model.cards((each) => each.origin === 'remote'));
    for (const id of capabilityIds) {
      const offering = model.preferred((each) => each.capabilities.some((one) => one.id === id));
      expect(registry.findByCapability(id)).toEqual(offering);
      expect(registry.findFirstByCapability(id)).toEqual(offering[0]);
    }
    for (const tier of tiers) {
      expect(registry.findByTier(tier)).toEqual(model.preferred((each) => each.tier === tier));
    }
    for (const sandbox of sandboxes) {
      expect(registry.findBySandbox(sandbox)).toEqual(model.preferred((each) => each.sandboxId === sandbox));
    }
    for (const name of names) {
      const [only, ...more] = model.candidates(name);
      if (only && more.length === 0) {
        expect(registry.getById(name)).toEqual(only);
        expect(registry.requireById(name)).toEqual(only);
      } else {
        expect(registry.getById(name)).toBeUndefined();
        expect(refusal(() => registry.requireById(name)).code).toBe(only ? 'AMBIGUOUS_AGENT' : 'AGENT_NOT_FOUND');
      }
    }
  }

  it('answers every question as a plain list would, after any history, and so does its copy [P1 P3 P4 P5 R1.2 R1.3 R1.5 R1.6]', () => {
    fc.assert(
      fc.property(fc.array(arbStep, { minLength: 1, maxLength: 25 }), (steps) => {
        const registry = new AgentRegistry({ nodeKey: HOME });
        const model = new NaiveRegistry();
        for (const step of steps) {
          if (step.does === 'register') {
            registry.register(step.card);
            model.register(step.card);
          } else if (step.does === 'merge') {
            registry.mergeRemote(step.card, step.node);
            model.mergeRemote(step.card, step.node);
          } else {
            expect(registry.unregister(step.name)).toBe(model.unregister(step.name));
          }
          expectSame(registry, model);
        }
        expectSame(AgentRegistry.deserialize(registry.serialize(), { nodeKey: HOME }), model);
      }),
      { numRuns: 300 },
    );
  });
});
