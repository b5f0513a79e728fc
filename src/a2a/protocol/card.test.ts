import { describe, expect, it } from 'vitest';
import { takeAgentCard, toServedCard } from '../v03/card.js';
import {
  buildCardOfAgent,
  buildNodeCard,
  type CardSurroundings,
  etagOf,
  interfacesAt,
  matchesEtag,
  toSimpleCard,
} from './card.js';
import { humanize, tagsOf } from './skills.js';

const around: CardSurroundings = {
  version: '1.2.3',
  endpoints: { jsonRpc: 'http://127.0.0.1:3000/a2a', httpJson: 'http://127.0.0.1:3000/a2a/rest' },
  tools: [
    { name: 'github_list_prs', owner: 'sun', description: 'Lists pull requests.' },
    { name: 'web_search', owner: 'mars' },
    { name: 'frobnicate', owner: 'mars' },
  ],
  capabilities: { streaming: true },
  inputModes: ['text/plain', 'application/json'],
  outputModes: ['text/plain', 'application/json'],
  bearerScopes: ['a2a'],
};
const node = { name: 'a node', description: 'What it is for.' };
const ids = (skills: readonly { id: string }[]) => skills.map(({ id }) => id);

describe('the name of a tool', () => {
  it('becomes one that people would write', () => {
    expect(
      ['github_star_repo', 'list_prs', 'review_pr', 'a2a.invoke', 'callApi', 'web-search', 'x', '___'].map(humanize),
    ).toEqual(['GitHub Star Repo', 'List PRs', 'Review PR', 'A2A Invoke', 'Call API', 'Web Search', 'X', '___']);
  });

  it('gives its tags', () => {
    expect(tagsOf('github_review_pr')).toEqual(['github', 'review', 'pull-requests']);
    expect(tagsOf('send_message')).toEqual(['communication', 'messaging']);
    expect(tagsOf('constructor')).toEqual(['general']);
  });
});

describe('the card of a node', () => {
  it('has every offered tool as a skill', () => {
    expect(buildNodeCard(node, around).skills).toEqual([
      {
        id: 'sun.github_list_prs',
        name: 'GitHub List PRs',
        description: 'Lists pull requests.',
        tags: ['github', 'pull-requests'],
        inputModes: ['application/json'],
        outputModes: ['application/json', 'text/plain'],
      },
      expect.objectContaining({ id: 'mars.web_search', name: 'Web Search', tags: ['web', 'search'] }),
      expect.objectContaining({ id: 'mars.frobnicate', description: 'Tool: frobnicate', tags: ['general'] }),
    ]);
  });

  it('may have no skills at all [A2A-1.9.9]', () => {
    const card = buildNodeCard(node, { ...around, tools: [] });
    expect(card.skills).toEqual([]);
    expect(takeAgentCard(JSON.parse(JSON.stringify(card)))).toEqual(card);
  });

  it('says where and how it is reached', () => {
    const card = buildNodeCard(node, around);
    expect(card.supportedInterfaces.map((one) => [one.protocolBinding, one.protocolVersion, one.url])).toEqual([
      ['JSONRPC', '1.0', around.endpoints.jsonRpc],
      ['HTTP+JSON', '1.0', around.endpoints.httpJson],
      ['JSONRPC', '0.3', around.endpoints.jsonRpc],
      ['HTTP+JSON', '0.3', around.endpoints.httpJson],
    ]);
    expect(interfacesAt({ ...around.endpoints, grpc: 'h:1', tenant: 'acme' })[2]).toEqual({
      url: 'h:1',
      protocolBinding: 'GRPC',
      protocolVersion: '1.0',
      tenant: 'acme',
    });
    expect(card.securitySchemes).toEqual({ bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } });
    expect('securitySchemes' in buildNodeCard(node, { ...around, bearerScopes: undefined })).toBe(false);
  });

  it('is served for every reader in one document', () => {
    const card = buildNodeCard(node, around);
    const served = toServedCard(card);
    expect(served).toMatchObject({
      url: around.endpoints.jsonRpc,
      protocolVersion: '0.3',
      authentication: { schemes: ['Bearer'] },
    });
    expect(takeAgentCard(JSON.parse(JSON.stringify(served)))).toEqual(card);
    expect(toSimpleCard(card, 'http://127.0.0.1:3000')).toMatchObject({
      url: 'http://127.0.0.1:3000',
      capabilities: { streaming: true },
      authentication: { schemes: ['Bearer'] },
    });
  });

  it('has an ETag that changes with its content', () => {
    const card = buildNodeCard(node, around);
    const etag = etagOf(card);
    expect(etag).toMatch(/^"[\w-]{43}"$/);
    expect(etagOf(buildNodeCard({ description: node.description, name: node.name }, around))).toBe(etag);
    expect(etagOf({ ...card, version: '1.2.4' })).not.toBe(etag);
    for (const header of [etag, `W/${etag}`, `"x", ${etag}`, '*']) expect(matchesEtag(header, etag)).toBe(true);
    for (const header of [undefined, '', '"x"', etag.slice(1, -1)]) expect(matchesEtag(header, etag)).toBe(false);
  });
});

describe('the card of an agent', () => {
  const mars = { id: 'mars', name: 'Mars', description: 'Builds.' };

  it('has the tools that it may use, or by default its own', () => {
    expect(ids(buildCardOfAgent(mars, around).skills)).toEqual(['mars.web_search', 'mars.frobnicate']);
    const permitted = ['github_list_prs', 'mars.frobnicate', 'gone'];
    expect(ids(buildCardOfAgent({ ...mars, mcpToolPermissions: permitted }, around).skills)).toEqual([
      'sun.github_list_prs',
      'mars.frobnicate',
    ]);
    expect(buildCardOfAgent({ ...mars, mcpToolPermissions: [] }, around).skills).toEqual([]);
    expect(buildCardOfAgent({ ...mars, mcpToolPermissions: null }, around, () => true).skills).toHaveLength(3);
  });

  it('tells of its persona and its bundles', () => {
    const card = buildCardOfAgent(
      {
        ...mars,
        mcpToolPermissions: [],
        persona: { archetype: 'builder', background: 'Has built before.', traits: ['calm', 'exact'] },
        skillBundles: [{ name: 'research', tools: ['web_search'] }],
      },
      around,
    );
    expect(card.description).toBe('Builds.\n\nbuilder\n\nHas built before.\n\nTraits: calm, exact.');
    expect(card.skills.map(({ id, tags }) => [id, tags])).toEqual([['mars.web_search', ['web', 'search', 'research']]]);
  });
});

describe('a remote card', () => {
  it('must have a name and a version', () => {
    for (const [card, field] of [
      [{ version: '1' }, 'name'],
      [{ name: 'x' }, 'version'],
      [{ name: 'x', version: '1', skills: [{ id: 'a' }] }, 'skills[0].name'],
      [5, 'card'],
    ] as const) {
      expect(() => takeAgentCard(card)).toThrow(
        expect.objectContaining({
          code: 'INVALID_CARD',
          details: { faults: [expect.stringMatching(new RegExp(`^${field.replace(/[[\]]/g, '\\$&')} `))] },
        }),
      );
    }
    expect(takeAgentCard({ name: 'x', version: '1' })).toMatchObject({ description: '', skills: [], capabilities: {} });
  });
});
