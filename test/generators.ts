import fc from 'fast-check';
import type { CRDTSyncMessage } from '../src/documents/sync-message.js';
import type { ToolDefinition } from '../src/mcp/definitions.js';
import type {
  A2AEnvelope,
  A2AMessageType,
  AgentCard,
  AgentTier,
  CapabilityDescriptor,
  SandboxRoutingConfig,
} from '../src/mesh/schemas.js';
import { A2AMessageTypeSchema, SCHEMA_VERSION } from '../src/mesh/schemas.js';

/** The arbitraries that every suite shares. */

export const arbTier = (): fc.Arbitrary<AgentTier> => fc.constantFrom<AgentTier>(0, 1, 2, 3);

export const arbMessageType = (): fc.Arbitrary<A2AMessageType> => fc.constantFrom(...A2AMessageTypeSchema.options);

export const arbAgentId = (): fc.Arbitrary<string> => fc.stringMatching(/^[a-z0-9][a-zA-Z0-9_-]{0,20}$/);

export const arbNodeKey = (): fc.Arbitrary<string> => fc.stringMatching(/^[a-z0-9]{8,52}$/);

/** JSON values that come back equal: no -0, which JSON writes as 0, and no key that poisons prototypes. */
export const arbJson = (): fc.Arbitrary<unknown> =>
  fc
    .jsonValue({ maxDepth: 4 })
    .map((value) => JSON.parse(JSON.stringify(value)) as unknown)
    .filter((value) => !JSON.stringify(value).includes('"__proto__"'));

export const arbCapabilityDescriptor = (): fc.Arbitrary<CapabilityDescriptor> =>
  fc.record({
    id: fc.stringMatching(/^[a-z]{1,8}\.[a-z]{1,8}$/),
    name: fc.string({ minLength: 1, maxLength: 40 }),
    description: fc.string({ maxLength: 80 }),
    inputSchema: arbJson(),
    outputSchema: arbJson(),
  });

/** A valid card of a local agent. */
export const arbAgentCard = (): fc.Arbitrary<AgentCard> =>
  fc.record(
    {
      id: arbAgentId(),
      name: fc.string({ minLength: 1, maxLength: 40 }),
      version: fc.stringMatching(/^\d{1,3}\.\d{1,3}\.\d{1,3}$/),
      description: fc.string({ maxLength: 80 }),
      tier: arbTier(),
      protocols: fc.array(fc.constantFrom('a2a/1.0', 'mcp/2024-11-05'), { maxLength: 2 }),
      endpoints: fc.array(
        fc.record(
          {
            transport: fc.constantFrom('local' as const, 'hyperswarm' as const, 'websocket' as const),
            address: fc.string({ minLength: 1, maxLength: 40 }),
          },
          { requiredKeys: ['transport'] },
        ),
        { maxLength: 3 },
      ),
      capabilities: fc.array(arbCapabilityDescriptor(), { maxLength: 4 }),
      revision: fc.nat(1_000),
      sandboxId: fc.stringMatching(/^[a-z]{1,10}$/),
      origin: fc.constant('local' as const),
      lastSeenAt: fc.nat(),
    },
    {
      requiredKeys: [
        'id',
        'name',
        'version',
        'description',
        'tier',
        'protocols',
        'endpoints',
        'capabilities',
        'revision',
        'origin',
        'lastSeenAt',
      ],
    },
  );

/** Cards with distinct ids. */
export const arbAgentCards = (minLength = 1, maxLength = 12): fc.Arbitrary<AgentCard[]> =>
  fc.uniqueArray(arbAgentCard(), { selector: (card) => card.id, minLength, maxLength });

/** A valid envelope, as plain data. */
export const arbA2AEnvelope = (): fc.Arbitrary<A2AEnvelope> =>
  fc.record(
    {
      id: fc.stringMatching(/^[0-9A-Z]{26}$/),
      schemaVersion: fc.constant(SCHEMA_VERSION as 1),
      sender: arbAgentId(),
      recipient: fc.oneof(arbAgentId(), fc.constant('*')),
      correlationId: fc.stringMatching(/^[0-9A-Z]{1,26}$/),
      type: arbMessageType(),
      timestamp: fc.nat(),
      payload: arbJson(),
      metadata: fc.record(
        {
          tier: arbTier(),
          sandboxId: fc.stringMatching(/^[a-z]{1,10}$/),
          routingHint: fc.constant('capability' as const),
          escalationJustification: fc.string({ maxLength: 40 }),
          durable: fc.boolean(),
          ttlMs: fc.integer({ min: 1, max: 1_000_000 }),
          traceparent: fc.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/),
          tracestate: fc.stringMatching(/^[a-z]{1,8}=[a-z]{1,8}$/),
        },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: ['id', 'schemaVersion', 'sender', 'recipient', 'type', 'timestamp', 'payload'] },
  );

/** A JSON Schema of an object. */
const arbObjectSchema = () =>
  fc
    .dictionary(fc.stringMatching(/^[a-z]{1,8}$/), fc.constantFrom('string', 'number', 'boolean', 'array'), {
      maxKeys: 4,
    })
    .map((types) => ({
      type: 'object' as const,
      properties: Object.fromEntries(Object.entries(types).map(([name, type]) => [name, { type }])),
      required: Object.keys(types).slice(0, 1),
    }));

/** A valid tool, as an agent offers it. */
export const arbMCPToolDefinition = (): fc.Arbitrary<ToolDefinition> =>
  fc.record(
    {
      kind: fc.constant('tool' as const),
      name: fc.stringMatching(/^[a-z][a-zA-Z0-9_.-]{0,20}$/),
      title: fc.string({ maxLength: 40 }),
      description: fc.string({ maxLength: 80 }),
      inputSchema: arbObjectSchema(),
      outputSchema: arbObjectSchema(),
      annotations: fc.record({ readOnlyHint: fc.boolean() }),
    },
    { requiredKeys: ['kind', 'name', 'inputSchema'] },
  );

/** A valid message between replicas, with the vector clock that it must have. */
export const arbCRDTSyncMessage = (): fc.Arbitrary<CRDTSyncMessage> =>
  fc.record({
    sourceAgentId: fc.tuple(arbAgentId(), arbNodeKey()).map(([id, node]) => `${id}@${node}`),
    vectorClock: fc.dictionary(
      fc
        .tuple(arbAgentId(), arbNodeKey(), fc.stringMatching(/^[0-9a-z]{1,26}$/))
        .map(([id, node, s]) => `${id}@${node}/${s}`),
      fc.integer({ min: 1, max: 1_000_000 }),
      { minKeys: 1, maxKeys: 5, noNullPrototype: true },
    ),
    payload: fc.oneof(
      fc.record({ kind: fc.constant('update'), segments: fc.array(arbJson(), { maxLength: 3 }) }),
      fc.record({ kind: fc.constant('have'), presence: arbJson() }),
      fc.constant({ kind: 'want' }),
      fc.record({ kind: fc.constant('part'), segments: fc.array(arbJson(), { maxLength: 3 }), more: fc.boolean() }),
    ),
    timestamp: fc.nat(),
  });

/** The terms of a proposal, as in the specification. */
export const arbTaskProposal = () =>
  fc.record({
    taskDescription: fc.string({ maxLength: 200 }),
    requiredCapabilities: fc.array(fc.string({ minLength: 1, maxLength: 20 }), { maxLength: 5 }),
    estimatedComplexity: fc.constantFrom('simple', 'medium', 'complex'),
    deadlineMs: fc.integer({ min: 1, max: 3_600_000 }),
  });

/** Sandbox rules over a small set of names, so that members, strangers and allowed agents all occur. */
export const arbSandboxConfig = (agentIds: readonly string[]): fc.Arbitrary<SandboxRoutingConfig> => {
  const agents = fc.subarray([...agentIds]);
  return fc.record({
    enforced: fc.boolean(),
    crossSandboxAllowList: agents,
    allow: fc.dictionary(fc.constantFrom('red', 'blue', 'green'), agents),
    shared: fc.subarray(['red', 'blue']),
  });
};

export const arbTierPair = (): fc.Arbitrary<{ source: AgentTier; target: AgentTier }> =>
  fc.record({ source: arbTier(), target: arbTier() });
