import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { type Life, World } from '../../test/durable/simulated-mail.js';
import { Nodes } from '../../test/nodes-fixture.js';
import { providerTriggers } from '../../test/providers/error-triggers.js';
import { rawClient } from '../../test/raw-client.js';
import { workspaceTriggers } from '../../test/workspaces/error-triggers.js';
import { loadGrpc } from '../a2a/client/grpc-service.js';
import { fetchAgentCard } from '../a2a/client/remote-agents.js';
import { admitDelegation } from '../a2a/protocol/delegation.js';
import { activateExtensions, negotiateVersion } from '../a2a/protocol/headers.js';
import { parseJson, readJsonRpcRequest } from '../a2a/protocol/json-rpc.js';
import { readSendMessageRequest } from '../a2a/protocol/read-requests.js';
import { takeTask } from '../a2a/protocol/read-responses.js';
import { createTask, stepTask } from '../a2a/protocol/task-machine.js';
import { requireOwn, requireSameMessage, requireSubscribable } from '../a2a/protocol/task-rules.js';
import { requireExtendedCard, requireInputModes, requirePush } from '../a2a/server/offer.js';
import { takeAgentCard } from '../a2a/v03/card.js';
import type { SwarmInit } from '../agent/agent-swarms.js';
import { notSeen } from '../cli/demo/scenes.js';
import { LoopGuard } from '../coding-agents/mailbox/loop-guard.js';
import { RateLimiter, requireScope } from '../http/auth/caller-auth.js';
import { requireJsonBody } from '../http/server/http-server.js';
import { CRDTSyncChannel, createNode, deserializeEnvelope, type NodeInit } from '../index.js';
import { Login } from '../mcp/upstream/login.js';
import { CredentialStore } from '../mcp/upstream/login-attempt.js';
import { Logins } from '../mcp/upstream/logins.js';
import { audit } from '../mesh/audit/tables.js';
import { A2AObservability } from '../mesh/observability.js';
import { NatsConnection } from '../nats/connection.js';
import { Identity } from '../network/membership/identity.js';
import { checkSignedCard } from '../network/membership/signed-cards.js';
import type { Config } from '../node/config/schema.js';
import { ControlClient } from '../node/control/client.js';
import { completeId } from '../node/control/context.js';
import { findStory } from '../node/control/story/find.js';
import { AnswerRecord } from '../node/devices/answer-record.js';
import { Host } from '../node/host.js';
import { openStore } from '../node/tables.js';
import type { ObjectLimits } from '../objects/limits.js';
import { RalphLoop } from '../plans/ralph-loop.js';
import { MemoryStore } from '../store/memory-store.js';
import { Approvals } from '../system/approvals/approvals.js';
import { guardedFetch } from '../system/fetch/guarded-fetch.js';
import { Children } from '../system/process/children.js';
import { Credentials } from '../system/secrets/credentials.js';
import { Redactor } from '../system/secrets/secret.js';
import { EclipticError, ERRORS, type ErrorCode, isErrorCode } from './errors.js';
import { SimulatedRuntime } from './simulated-runtime.js';
import { systemRuntime } from './system-runtime.js';

const cleanups: (() => unknown)[] = [];

/** The one code that exists so that it can be shown that nothing produces it. */
type Met = Exclude<ErrorCode, 'PROVIDER_UNKNOWN'>;

async function attaching(objects: Partial<ObjectLimits> = {}) {
  const node = await createNode({ network: { dht: false, folder: temporaryFolder() }, limits: { objects } });
  cleanups.push(() => node.stop());
  const [alice, bob, carol] = ['alice', 'bob', 'carol'].map((id) => node.agent({ id }));
  return { alice: alice!, bob: bob!, carol: carol! };
}

async function remembering() {
  const node = await createNode();
  cleanups.push(() => node.stop());
  for (const id of ['alice', 'bob']) node.agent({ id });
  const [alice, bob] = [node.registry.ownEntry('alice')!, node.registry.ownEntry('bob')!];
  return { collections: await node.openCollections('alice', { author: { entries: 2, bytes: 100 } }), alice, bob };
}

/** For each code, something a user of the package can do to meet it. A code without an entry does not compile. */
const triggers: Record<Met, () => unknown> = {
  ...providerTriggers(cleanups),
  ...workspaceTriggers(cleanups),
  AGENT_NOT_FOUND: async () => {
    const { alice } = await start();
    return alice.send('nobody', 1);
  },
  CAPABILITY_NOT_FOUND: async () => {
    const { alice } = await start();
    return alice.send({ capability: 'code.review' }, 1);
  },
  TIER_VIOLATION: async () => {
    const { node } = await start();
    return node.agent({ id: 'earth' }).send('bob', 1);
  },
  SANDBOX_VIOLATION: async () => {
    const { node } = await start();
    return node.agent({ id: 'boxed', sandbox: 'lab' }).send('bob', 1);
  },
  ESCALATION_REQUIRED: async () => {
    const { node, alice } = await start();
    node.agent({ id: 'sun' });
    return alice.send('sun', 'a plan', { type: 'task-proposal' });
  },
  ALREADY_ANSWERED: () => {
    const decision = { verdict: 'deny' as const, by: 'laptop (abc)', at: 0 };
    const approval = { id: 'A', kind: 'action', subject: 's', summary: '?', details: {}, createdAt: 0, decision };
    const runtime = new SimulatedRuntime();
    const record = new AnswerRecord({
      ...{ runtime, observability: new A2AObservability(), approvals: { items: [approval] }, ownName: 'desk' },
    });
    throw record.whyGone('approval:A');
  },
  DEMO_FAILED: () => {
    throw notSeen('the plan is done');
  },
  CHANNEL_CLOSED: async () => {
    const { node, alice, bob } = await start();
    bob.onChannel(() => true);
    const channel = await alice.openChannel('bob');
    await channel.close();
    return channel.send(node.envelopes.create(message('alice', 'bob')));
  },
  DELIVERY_FAILED: async () => {
    const { node, alice, bob, runtime } = await start();
    bob.onChannel(() => true);
    const channel = await alice.openChannel('bob');
    const sent = codeOf(channel.send(node.envelopes.create(message('alice', 'bob'))));
    await runtime.advance(700);
    return { error: await sent };
  },
  INVALID_CARD: async () => {
    const { node } = await start();
    return node.agent({ id: 'not an id' });
  },
  SCHEMA_VERSION_MISMATCH: () => deserializeEnvelope('{"schemaVersion":2}'),
  AMBIGUOUS_AGENT: async () => {
    const { node, alice } = await start();
    for (const key of ['here', 'there']) {
      node.registry.mergeRemote({ ...alice.card, id: 'rhea', origin: 'remote', node: key }, key);
    }
    return alice.send('rhea', 1);
  },
  AGENT_EXISTS: async () => {
    const { node } = await start();
    return node.agent({ id: 'alice' });
  },
  AGENT_UNAVAILABLE: async () => {
    const { node, alice } = await start();
    node.registry.register({ ...alice.card, id: 'absent' });
    return alice.send('absent', 1);
  },
  SENDER_REFUSED: async () => {
    const { node } = await start();
    return node.router.send(node.envelopes.create(message('stranger', 'bob')));
  },
  INVALID_ENVELOPE: async () => {
    const { alice } = await start();
    return alice.send('bob', new Date(0));
  },
  PAYLOAD_TOO_LARGE: async () => {
    const { alice } = await start();
    return alice.send('bob', 'x'.repeat(1_048_577));
  },
  INVALID_CONFIG: () => {
    const rule = { sourceTier: 3 as const, allowedTargetTiers: [], requiresEscalationJustification: false };
    return start({ tiers: { rules: [rule, rule] } });
  },
  MAILBOX_FULL: async () => {
    const { alice, bob } = await start({ limits: { mailboxCapacity: 1, concurrency: 1 } });
    bob.onNotification(() => new Promise(() => {}));
    await alice.send('bob', 'being handled');
    await alice.send('bob', 'waiting');
    return alice.send('bob', 'one too many');
  },
  QUEUE_FULL: async () => {
    const { node, alice, bob } = await start({ limits: { channels: { queueCapacity: 1 } } });
    bob.onChannel(() => true);
    const channel = await alice.openChannel('bob');
    const waiting = codeOf(channel.send(node.envelopes.create(message('alice', 'bob'))));
    const refused = await codeOf(channel.send(node.envelopes.create(message('alice', 'bob'))));
    await channel.close();
    await waiting;
    return { error: refused };
  },
  PERMITS_FULL: async () => {
    const { alice, bob } = await start({ limits: { threads: { waiting: 1 } } });
    bob.onRequest(() => new Promise(() => {}));
    void alice.request('bob', 1).catch(() => {});
    return alice.request('bob', 1);
  },
  EXPIRED: async () => {
    const { node, runtime } = await start();
    const envelope = node.envelopes.create({ ...message('alice', 'bob'), metadata: { ttlMs: 100 } });
    await runtime.advance(101);
    return node.router.send(envelope);
  },
  STORE_REQUIRED: async () => {
    const { node } = await start();
    return node.router.send(node.envelopes.create({ ...message('alice', 'bob'), metadata: { durable: true } }));
  },
  REQUEST_TIMEOUT: async () => {
    const { alice, bob, runtime } = await start();
    bob.onRequest(() => new Promise(() => {}));
    const answer = codeOf(alice.request('bob', 1, { timeoutMs: 1_000 }));
    await runtime.advance(1_000);
    return { error: await answer };
  },
  HANDLER_FAILED: async () => {
    const { alice, bob } = await start();
    bob.onRequest(() => {
      throw new Error('no');
    });
    return alice.request('bob', 1);
  },
  NOT_HANDLED: async () => {
    const { alice, node } = await start();
    await alice.send('bob', 1);
    return { error: node.observability.getRecentEvents().findLast(({ type }) => type === 'error')?.code };
  },
  NO_WORKER: async () => {
    const { alice } = await start();
    return alice.request('bob', 1);
  },
  CANCELLED: async () => {
    const { alice, bob } = await start();
    bob.onRequest(() => new Promise(() => {}));
    const controller = new AbortController();
    const answer = codeOf(alice.request('bob', 1, { signal: controller.signal }));
    controller.abort();
    return { error: await answer };
  },
  STREAM_ANSWER: async () => {
    const { alice, bob } = await start();
    bob.onRequest(async function* () {
      yield 1;
    });
    return alice.request('bob', 1);
  },
  INVALID_TRANSITION: async () => {
    const { alice, bob } = await start();
    bob.onRequest(() => new Promise(() => {}));
    const reader = alice.stream('bob', 1);
    void reader.next();
    return reader.next();
  },
  NODE_STOPPED: async () => {
    const { node } = await start();
    await node.stop();
    return node.agent({ id: 'carol' });
  },
  USAGE: async () => {
    const { control } = await startHost(temporaryFolder());
    return rawClient(await connect(control)).call('send', { as: 'sun' });
  },
  NO_NODE: () => connect(join(temporaryFolder(), 'control.sock')),
  NODE_EXISTS: async () => {
    const folder = temporaryFolder();
    await startHost(folder);
    return startHost(folder);
  },
  DATA_FOLDER: () => {
    const file = join(temporaryFolder(), 'a-file');
    writeFileSync(file, '');
    return startHost(join(file, 'below'));
  },
  INVALID_FRAME: async () => connect(await answeringWith('this is not JSON\n')),
  PROTOCOL_MISMATCH: async () => connect(await answeringWith('{"hello":{"min":1000,"max":1001}}\n')),
  METHOD_NOT_FOUND: async () => {
    const { control } = await startHost(temporaryFolder());
    return rawClient(await connect(control)).call('fly');
  },
  MODULE_FAILED: async () => {
    const host = await startHost(temporaryFolder(), { agents: { carol: { module: './missing.js' } } });
    return { error: host.failures.get('carol')?.code };
  },
  INVALID_INVITE: async () => {
    const node = await new Nodes().start();
    return node.network.join('ecl1-this-is-none');
  },
  NO_MESH: async () => {
    const node = await new Nodes().start();
    return node.network.leave();
  },
  MESH_EXISTS: async () => {
    const [node] = await new Nodes().startMesh(2);
    const { code } = await node!.network.invite();
    return node!.network.join(code);
  },
  NOT_GRANTED: async () => {
    const nodes = new Nodes();
    const [host, guest] = [await nodes.start(), await nodes.start()];
    await nodes.join(guest, host, { tiers: [2, 3] });
    return guest.network.invite();
  },
  MEMBERSHIP_REFUSED: async () => {
    const nodes = new Nodes();
    const [one, other] = await nodes.startMesh(2);
    one!.network.remove(other!.key);
    await nodes.until(() => nodes.events(one!, 'security').length > 0);
    return { error: nodes.events(one!, 'security')[0]?.code };
  },
  STORE_RESTORED: () =>
    eventOf(async (world, a, b) => {
      const copy = a.store.inner.snapshot();
      await world.stop(a);
      const original = await world.start(a.station);
      await greet(world, original, b);
      await world.stop(original);
      a.station.disk = copy;
      await greet(world, await world.start(a.station), b);
      return b;
    }),
  NODE_DOUBLED: () =>
    eventOf(async (world, a, b) => {
      const twin = await world.start({ ...a.station });
      await world.until(() => b.events.some(({ code }) => code === 'NODE_DOUBLED'));
      world.crash(twin);
      return b;
    }),
  CARD_REFUSED: async () => {
    const nodes = new Nodes();
    const stranger = await nodes.start();
    const card = stranger.agent({ id: 'mars' }).card;
    return checkSignedCard([card, 'no signature'], stranger.key, { tiers: [3], invite: false });
  },
  PEER_NOT_FOUND: async () => {
    const [node] = await new Nodes().startMesh(2);
    return node!.network.remove('no such key');
  },
  PEER_UNREACHABLE: async () => {
    const nodes = new Nodes();
    const [host, guest] = [await nodes.start(), await nodes.start()];
    const { code } = await host.network.invite();
    await host.stop();
    return nodes.settled(guest.network.join(code));
  },
  BROKER_UNREACHABLE: async () => {
    const runtime = systemRuntime();
    const servers = ['nats://127.0.0.1:1'];
    const connection = new NatsConnection({ runtime, identity: Identity.create(runtime) }, { servers });
    await connection.start();
    return connection.ready(10).finally(() => connection.stop());
  },
  ADDRESS_UNUSABLE: async () => {
    const node = await createNode({ network: { listen: { host: '203.0.113.1', port: 7 }, dht: false } });
    cleanups.push(() => node.stop());
    return node.network!.invite();
  },
  STORE_FAILED: async () => {
    const folder = temporaryFolder();
    const store = await openStore(folder);
    cleanups.push(() => store.close());
    return openStore(folder);
  },
  STORE_DAMAGED: () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'store'));
    writeFileSync(join(folder, 'store', 'manifest'), 'this is no manifest');
    return openStore(folder);
  },
  AMBIGUOUS_ID: () => completeId('01M7', ['01M7A', '01M7B']),
  STORY_NOT_FOUND: () => findStory('nothing', []),
  RECEIPT_NOT_FOUND: async () => {
    const { node } = await start({ store: new MemoryStore() });
    return node.mail!.receipt('unknown');
  },
  AUDIT_BROKEN: async () => {
    const store = new MemoryStore();
    const { node, alice } = await start({ store });
    await alice.send('nobody', 1).catch(() => {});
    await node.records!.audit.verify();
    await store.write([audit.update({ seq: 1 }, { event: '{}' })]);
    return node.records!.audit.check();
  },
  APPROVAL_NOT_FOUND: () => new Approvals(systemRuntime()).decide('deny', 'operator', 'no-such-id'),
  LOGIN_REQUIRED: () => {
    const owner = { source: { resolve: () => expect.unreachable() }, provider: 'far', workspace: 'default' };
    const parts = { runtime: systemRuntime(), store: new CredentialStore(), redactor: new Redactor(), owner };
    const init = { server: 'far', url: new URL('https://far.example/mcp'), settings: {}, redirectUrl: () => '' };
    return new Login(parts, init).onUnauthorized({ response: new Response(null, { status: 401 }) });
  },
  LOGIN_FAILED: () => new Logins(systemRuntime(), { redirectUrl: () => '' }).finish(new URLSearchParams()),
  CRDT_DESERIALIZATION_FAILED: async () => {
    const { alice } = await start();
    return new CRDTSyncChannel(alice.state('plan')).broadcast(1n, 'alice');
  },
  SERVER_NOT_FOUND: async () => {
    const { control } = await startHost(temporaryFolder());
    const client = await ControlClient.connect(control);
    cleanups.push(() => client.close());
    return client.call('tools.logout', { server: 'nobody' });
  },
  CREDENTIAL_MISSING: () => openCredentials(temporaryFolder()).resolve('mars', 'default', 'token'),
  CREDENTIAL_DENIED: async () => {
    const credentials = openCredentials(temporaryFolder());
    const place = { provider: 'mars', workspace: 'default', name: 'token' };
    await credentials.set(place, 'a value');
    await credentials.revoke(place);
    return credentials.resolve('mars', 'default', 'token');
  },
  CREDENTIAL_UNREADABLE: async () => {
    const folder = temporaryFolder();
    const place = { provider: 'mars', workspace: 'default', name: 'token' };
    await openCredentials(folder).set(place, 'a value');
    writeFileSync(join(folder, 'credentials', 'key.json'), '{}');
    return openCredentials(folder).resolve('mars', 'default', 'token');
  },
  PROCESS_START_FAILED: async () => {
    const children = await Children.open(systemRuntime());
    cleanups.push(() => children.close());
    return children.start({ command: 'no-such-program' });
  },
  JAIL_UNAVAILABLE: async () => {
    const children = await Children.open(systemRuntime());
    cleanups.push(() => children.close());
    const jail = { name: 'mars', workspace: temporaryFolder(), required: true };
    return children.start({ command: 'true', jail });
  },
  PROCESS_ENDED: async () => {
    const children = await Children.open(systemRuntime());
    cleanups.push(() => children.close());
    const child = await children.start({ command: process.execPath, args: ['-e', ''] });
    await child.stop();
    return child.write('anybody there?');
  },
  TASK_NOT_FOUND: () => requireOwn({ owner: 'alice' }, 'bob', 'task-1'),
  TASK_NOT_CANCELABLE: () => {
    const step = stepTask(completedTask(), { type: 'cancel', at: 3 });
    return { error: step.outcome === 'refused' ? step.code : step.outcome };
  },
  PUSH_NOT_SUPPORTED: () => requirePush(remoteCard()),
  OPERATION_NOT_SUPPORTED: () => requireSubscribable(completedTask().task),
  CONTENT_TYPE_NOT_SUPPORTED: () => requireInputModes([{ url: 'https://a.example', mediaType: 'a/b' }], ['c/d']),
  INVALID_AGENT_RESPONSE: () => takeTask({ id: 'task-1' }),
  EXTENDED_CARD_NOT_CONFIGURED: () => requireExtendedCard(remoteCard(), undefined),
  EXTENSION_REQUIRED: () => activateExtensions([], [{ uri: 'urn:needed', required: true }]),
  VERSION_NOT_SUPPORTED: () => negotiateVersion('2.0'),
  INVALID_PARAMS: () => readSendMessageRequest({ message: { messageId: 'm', role: 'ROLE_USER', parts: [] } }),
  INVALID_REQUEST: () => readJsonRpcRequest({ method: 'GetTask' }),
  INVALID_JSON: () => parseJson('{'),
  DELEGATION_REFUSED: () => admitDelegation(['sun', 'mars'], 'sun'),
  UNSUPPORTED_MEDIA_TYPE: () => requireJsonBody({ 'content-type': 'text/xml' }),
  IDEMPOTENCY_CONFLICT: () => {
    const message = (text: string) => ({ messageId: 'm', role: 'ROLE_USER' as const, parts: [{ text }] });
    return requireSameMessage(message('one'), message('another'));
  },
  REMOTE_FAILED: async () => fetchAgentCard(await answeringStatus(500), { allowPrivate: true }),
  REMOTE_BUSY: async () => fetchAgentCard(await answeringStatus(503), { allowPrivate: true }),
  FETCH_REFUSED: () => guardedFetch(systemRuntime(), 'http://127.0.0.1/'),
  FETCH_FAILED: () => guardedFetch(systemRuntime(), 'http://a.test/', { resolve: async () => [] }),
  FETCH_TIMEOUT: () =>
    guardedFetch(systemRuntime(), 'http://a.test/', { timeoutMs: 1, resolve: () => new Promise(() => {}) }),
  DUPLICATE_TOOL: async () => {
    const { alice } = await start();
    return alice.tool('build', {}, () => 1).tool('build', {}, () => 2);
  },
  DUPLICATE_RESOURCE: async () => {
    const { alice, bob } = await start();
    for (const agent of [alice, bob]) agent.resource({ uri: 'memory://rules', name: 'Rules' }, () => '');
  },
  DUPLICATE_PROMPT: async () => {
    const { alice } = await start();
    return alice.prompt({ name: 'plan', template: '' }).prompt({ name: 'plan', template: '' });
  },
  INVALID_TOOL: async () => {
    const { alice } = await start();
    return alice.tool('not a name', {}, () => 1);
  },
  TOOL_NOT_FOUND: async () => {
    const { alice } = await start();
    return alice.mcp.call('bob.build');
  },
  RESOURCE_NOT_FOUND: async () => {
    const { alice } = await start();
    return alice.mcp.read('memory://rules');
  },
  PROMPT_NOT_FOUND: async () => {
    const { alice } = await start();
    return alice.mcp.prompt('bob.plan');
  },
  INVALID_ARGUMENTS: async () => {
    const { alice, bob } = await start();
    bob.tool('build', { inputSchema: { type: 'object', required: ['target'] } }, () => 1);
    return alice.mcp.call('bob.build');
  },
  INVALID_RESULT: async () => {
    const { alice, bob } = await start();
    bob.tool('build', {}, () => 10n);
    return alice.mcp.call('bob.build');
  },
  INVALID_REQUEST_STATE: async () => {
    const { node, alice, bob } = await start();
    bob.tool('build', {}, () => 1);
    const caller = node.registry.entry(alice.id)!;
    return node.mcp.callTool('bob.build', {}, { caller, state: 'made.up' });
  },
  CAPABILITY_REQUIRED: async () => {
    const { alice, bob } = await start();
    bob.tool('build', {}, (_, call) => call.ask({ where: { method: 'roots/list' } }));
    return alice.mcp.call('bob.build');
  },
  TOKEN_REQUIRED: async () => httpCode(await startHost(temporaryFolder()), {}),
  TOKEN_NOT_FOUND: async () => (await startHost(temporaryFolder())).gateway.tokens.revoke('nobody'),
  SCOPE_REQUIRED: () => requireScope('tasks', ['tools']),
  PACKAGE_REQUIRED: () => loadGrpc((name) => Promise.reject(new Error(`there is no ${name}`))),
  RATE_LIMITED: () => {
    const limiter = new RateLimiter(systemRuntime(), 1);
    limiter.take('alice');
    limiter.take('alice');
  },
  LOOP_STOPPED: () => new LoopGuard(systemRuntime(), { hops: 8 }).pass('alice', 'bob', 9),
  OBJECT_NOT_FOUND: async () => {
    const { alice } = await attaching();
    return alice.objects.remove({ object: 'none' });
  },
  ENTRY_NOT_FOUND: async () => {
    const { collections, alice } = await remembering();
    return collections.get('01J00000000000000000000000', alice);
  },
  ENTRY_REFUSED: async () => {
    const { collections, alice, bob } = await remembering();
    return collections.forget((await collections.add('memory', { text: 'mine' }, alice)).id, bob);
  },
  COLLECTION_FULL: async () => {
    const { collections, alice } = await remembering();
    for (let count = 0; count < 3; count++) await collections.add('memory', { text: `note ${count}` }, alice);
  },
  OBJECT_REFUSED: async () => {
    const { alice, bob, carol } = await attaching();
    const ref = await alice.objects.put(Buffer.from('text'), { to: bob.id });
    return carol.objects.save(ref, join(temporaryFolder(), 'file'));
  },
  OBJECT_TOO_LARGE: async () => {
    const { alice, bob } = await attaching({ objectBytes: 3 });
    return alice.objects.put(Buffer.from('text'), { to: bob.id });
  },
  OBJECTS_FULL: async () => {
    const { alice, bob } = await attaching({ agentBytes: 3 });
    return alice.objects.put(Buffer.from('text'), { to: bob.id });
  },
  OBJECT_DAMAGED: async () => {
    const { alice, bob } = await attaching();
    const ref = await alice.objects.put(Buffer.from('text'), { to: bob.id });
    return bob.objects.save({ ...ref, sha256: '0'.repeat(64) }, join(temporaryFolder(), 'file'));
  },
  LEASE_NOT_FOUND: async () => (await startHost(temporaryFolder())).codingAgents.leases.revoke('none'),
  HOST_REFUSED: async () => httpCode(await startHost(temporaryFolder()), { origin: 'http://evil.example' }),
  PROPOSAL_TIMEOUT: async () => {
    const { alice, bob, runtime } = await start();
    bob.onProposal(() => {});
    const { result } = alice.propose({ to: 'bob', taskDescription: 'x', deadlineMs: 100 });
    await runtime.advance(200);
    return result;
  },
  PROPOSAL_REJECTED: async () => {
    const { alice, bob } = await start();
    bob.onProposal((proposal) => proposal.reject('busy'));
    return alice.propose({ to: 'bob', taskDescription: 'x' }).result;
  },
  PROPOSAL_NOT_FOUND: async () => {
    const { alice } = await start();
    return alice.negotiator.accept('nothing', 1);
  },
  PROPOSALS_FULL: async () => {
    const { alice, bob } = await start();
    bob.onProposal(() => {});
    const propose = () => alice.propose({ to: 'bob', taskDescription: 'x' });
    for (let open = 0; open < 10_000; open++) propose();
    return propose().answered;
  },
  ANSWER_REFUSED: async () => {
    const { node, alice, bob } = await start();
    bob.onProposal(() => {});
    const { proposalId, correlationId: thread } = alice.propose({ to: 'bob', taskDescription: 'x' }).proposal;
    const mallory = node.agent({ id: 'mallory' });
    await mallory.send('alice', { proposalId, rejectionReason: 'busy' }, { type: 'task-reject', thread });
    return { error: node.observability.getRecentEvents().findLast(({ type }) => type === 'proposal')!.code };
  },
  INVALID_PLAN: async () => (await planning()).run([{ id: 'a', description: 'x', agent: 'nobody' }]),
  RUN_NOT_FOUND: async () => (await planning()).loop.view('nothing'),
  RUN_ACTIVE: async () => {
    const { run, bob } = await planning();
    bob.onRequest(() => new Promise(() => {}));
    await run([TASK]);
    return run([TASK], { fresh: true });
  },
  RUN_INCOMPLETE: async () => {
    const { run, bob } = await planning();
    bob.onRequest(() => Promise.reject(new Error('no')));
    const { tasks } = await run([TASK, { ...TASK, id: 'b', dependsOn: ['a'] }]);
    return { error: tasks[1]!.reason?.code };
  },
  RESULT_REFUSED: async () => {
    const { run, bob } = await planning();
    bob.onRequest(() => 'text');
    const { tasks } = await run([{ ...TASK, validate: { schema: { type: 'number' } } }]);
    return { error: tasks[0]!.reason?.code };
  },
  SWARM_NOT_FOUND: async () => {
    const { alice } = await start();
    return alice.swarms.finished('nothing');
  },
  SWARM_EXISTS: async () => {
    const { form } = await swarming();
    await form({ id: 'one' }).active;
    return form({ id: 'one' }).active;
  },
  SWARM_FAILED: async () => {
    const { form, runtime } = await swarming(() => Promise.reject(new Error('no')));
    const { result } = form({ attempts: 1 });
    await runtime.advance(1_000);
    return result;
  },
  SWARM_STALLED: async () => {
    const nodes = new Nodes();
    const [first, ...others] = await nodes.startMesh(3);
    const workers = others.map((node) =>
      node.agent({ id: 'bob', capabilities: ['x'] }).onRequest(() => new Promise(() => {})),
    );
    await nodes.until(() => first!.registry.findByCapability('x').length === 2);
    const plan = workers.map((_, at) => ({ id: `part-${at}`, requiredCapabilities: ['x'] }));
    const { active, result } = first!.agent({ id: 'alice' }).swarm('all', { capabilities: ['x'], plan });
    await nodes.settled(active);
    for (const node of others) await nodes.settled(node.stop());
    return nodes.settled(result);
  },
  SWARMS_FULL: async () => {
    const { alice } = await start();
    const join = (at: number) => alice.swarms.joinSwarm(`swarm-${at}`, 'alice', 'bob');
    for (let at = 0; at < 2_000; at++) join(at).catch(() => {});
    return join(2_000);
  },
  SUB_TASK_NOT_HELD: async () => {
    const { alice, form } = await swarming();
    const { id, active } = form({});
    await active;
    return alice.swarms.completeSubTask(id, 'x', 1);
  },
};

/** The codes that the specification of the mesh asks for. */
const specified: Met[] = [
  'AGENT_NOT_FOUND',
  'CAPABILITY_NOT_FOUND',
  'TIER_VIOLATION',
  'SANDBOX_VIOLATION',
  'ESCALATION_REQUIRED',
  'CHANNEL_CLOSED',
  'DELIVERY_FAILED',
  'INVALID_CARD',
  'SCHEMA_VERSION_MISMATCH',
  'PROPOSAL_TIMEOUT',
];

/** The latest security event of a node, after something happened in a mesh of two nodes with stores. */
async function eventOf(act: (world: World, a: Life, b: Life) => Promise<Life>): Promise<unknown> {
  const world = new World();
  try {
    const [a, b] = (await world.mesh(2)) as [Life, Life];
    const { events } = await act(world, a, b);
    await world.until(() => events.some(({ type }) => type === 'security'));
    return { error: events.findLast(({ type }) => type === 'security')?.code };
  } finally {
    await world.end();
  }
}

/** Sends one durable message. */
async function greet(world: World, from: Life, to: Life): Promise<void> {
  const agent = from.node.agent({ id: 'ann', tier: 0 });
  if (!to.node.agents.some(({ id }) => id === 'bob')) to.node.agent({ id: 'bob', tier: 0 }).onMessage(() => {});
  const address = `bob@${to.station.key}`;
  await world.until(() => from.node.registry.entry(address) !== undefined);
  const { messageId } = await world.settled(agent.send(address, 'hello', { durable: true }));
  await world.until(() => to.events.some(({ envelopeId }) => envelopeId === messageId));
}

const codes = Object.keys(ERRORS) as ErrorCode[];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

describe('the error catalogue', () => {
  it('has the codes of the specification, each used in its place [E.AGENT_NOT_FOUND E.CAPABILITY_NOT_FOUND E.TIER_VIOLATION E.SANDBOX_VIOLATION E.ESCALATION_REQUIRED E.CHANNEL_CLOSED E.DELIVERY_FAILED E.INVALID_CARD E.SCHEMA_VERSION_MISMATCH E.PROPOSAL_TIMEOUT]', async () => {
    expect(await Promise.all(specified.map((code) => codeOf(Promise.resolve().then(triggers[code]))))).toEqual(
      specified,
    );
  });

  const others = codes.filter((one): one is Met => one !== 'PROVIDER_UNKNOWN' && !specified.includes(one as Met));
  for (const code of others) {
    it(`has ${code}, which a user can meet`, async () => {
      expect(await codeOf(Promise.resolve().then(triggers[code]))).toBe(code);
    });
  }

  it('gives every error a meaning, an HTTP error status and a JSON-RPC code of its own', () => {
    for (const { meaning, http } of Object.values(ERRORS)) {
      expect(meaning).toMatch(/^[A-Z].*\.$/);
      expect(http).toBeGreaterThanOrEqual(400);
      expect(http).toBeLessThan(600);
    }
    const rpc = Object.values(ERRORS).map((entry) => entry.rpc);
    expect(new Set(rpc).size).toBe(rpc.length);
    expect(new Set(Object.values(ERRORS).map((entry) => entry.meaning)).size).toBe(rpc.length);
  });

  it('uses no JSON-RPC code that JSON-RPC, A2A or MCP gives a meaning to', () => {
    const predefined = [-32700, -32600, -32601, -32602, -32603];
    for (const { rpc } of Object.values(ERRORS)) {
      expect(Number.isInteger(rpc)).toBe(true);
      expect(predefined).not.toContain(rpc);
      expect(rpc <= -32000 && rpc >= -32099).toBe(false);
      expect(rpc).toBeLessThan(0);
    }
  });

  it('marks an error as retryable exactly where waiting can help', () => {
    const never = [400, 403, 409, 410, 413, 426, 499, 501];
    const always = [429, 504];
    for (const [code, { retryable, http }] of Object.entries(ERRORS)) {
      if (never.includes(http)) expect([code, retryable]).toEqual([code, false]);
      if (always.includes(http)) expect([code, retryable]).toEqual([code, true]);
    }
  });

  it('tells its codes from other names', () => {
    expect(codes.every(isErrorCode)).toBe(true);
    for (const other of ['agent_not_found', 'toString', '__proto__', '', 7, null, undefined]) {
      expect(isErrorCode(other)).toBe(false);
    }
  });
});

describe('an error', () => {
  it('carries code, details and cause, and becomes JSON without its stack', () => {
    const cause = new Error('underneath');
    const error = new EclipticError('MAILBOX_FULL', 'try later', { waiting: 3 }, cause);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'EclipticError', code: 'MAILBOX_FULL', retryable: true, cause });
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      code: 'MAILBOX_FULL',
      message: 'try later',
      retryable: true,
      details: { waiting: 3 },
    });
    expect(Object.hasOwn(new EclipticError('EXPIRED', 'gone'), 'cause')).toBe(false);
  });
});

describe('docs/errors.md', () => {
  const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8');
  const rows = page
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );

  it('lists exactly the catalogue, in its order, each with its fields', () => {
    expect(rows.map((row) => row.slice(0, 5))).toEqual(
      codes.map((code) => {
        const { meaning, retryable, http, rpc } = ERRORS[code];
        return [`\`${code}\``, meaning, retryable ? 'yes' : 'no', String(http), String(rpc)];
      }),
    );
  });

  it('says for each code how to react', () => {
    for (const row of rows) {
      expect(row).toHaveLength(6);
      expect(row[5]).toMatch(/^[A-Z].{10,}\.$/);
    }
  });

  it('names no code that does not exist', () => {
    const named = [...page.matchAll(/`([A-Z]+(?:_[A-Z]+)*)`/g)].map(([, name]) => name);
    expect(named.filter((name) => !isErrorCode(name))).toEqual([]);
  });
});

/** The code a call ended with, whether it was thrown, rejected or returned in a routing result. */
async function codeOf(call: unknown): Promise<unknown> {
  try {
    return ((await call) as { error?: unknown } | undefined)?.error;
  } catch (error) {
    if (error instanceof EclipticError) return error.code;
    throw error;
  }
}

function message(sender: string, recipient: string) {
  return { sender, recipient, type: 'notification' as const, payload: 1 };
}

/** Two agents, of which one forms swarms and the other does their work. */
async function swarming(work: () => unknown = () => 1) {
  const { node, alice, runtime } = await start();
  node.agent({ id: 'carol', capabilities: ['x'] }).onRequest(work);
  const form = (init: Partial<SwarmInit>) => alice.swarm('all of it', { capabilities: ['x'], ...init });
  return { alice, runtime, form };
}

/** A node on a simulated clock with two agents of the lowest tier. */
async function start(init: NodeInit = {}) {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime, ...init });
  return { runtime, node, alice: node.agent({ id: 'alice' }), bob: node.agent({ id: 'bob' }) };
}

const TASK = { id: 'a', description: 'x', agent: 'bob', retries: 0 };

/** A node with a Ralph loop, whose escalations wait for the operator. */
async function planning() {
  const store = new MemoryStore();
  const { runtime, node, bob } = await start({ store });
  node.agent({ id: 'sun' });
  const { registry, router } = node;
  const agent = (id: string) => node.agentById(id);
  const policy = { escalation: { policy: 'manual' } } as const;
  const loop = new RalphLoop({ runtime, store, registry, router, agent }, policy);
  const run = async (tasks: readonly object[], more: { fresh?: boolean } = {}) => {
    const { id } = await loop.start({ text: JSON.stringify({ tasks }), file: 'plan.json', ...more });
    await runtime.advance(1_000);
    return loop.view(id);
  };
  return { loop, run, bob };
}

function completedTask() {
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] } as const;
  const { model } = createTask({ id: 'task-1', contextId: 'context-1', message, at: 1 });
  return stepTask(model, { type: 'exit', code: 0, at: 2 }).model;
}

function remoteCard() {
  return takeAgentCard({ name: 'remote', version: '1', capabilities: { extendedAgentCard: true } });
}

function openCredentials(folder: string): Credentials {
  return new Credentials({ runtime: systemRuntime(), report: () => {} }, { folder });
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-'));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A node as a program, with its control socket. */
async function startHost(dataFolder: string, config: Config = {}): Promise<Host> {
  const loaded = { config, file: undefined, folder: dataFolder };
  const http = { port: 0 };
  const host = await Host.start({ runtime: new SimulatedRuntime(), loaded, dataFolder, env: {}, http });
  cleanups.push(() => host.stop());
  return host;
}

/** The code with which the node's HTTP edge answers. */
async function httpCode({ gateway }: Host, headers: Record<string, string>): Promise<{ error: unknown }> {
  const answer = await fetch(gateway.mcpUrl, { headers });
  const { error } = (await answer.json()) as { error: { code: unknown } };
  return { error: error.code };
}

async function connect(path: string): Promise<ControlClient> {
  const client = await ControlClient.connect(path);
  cleanups.push(() => client.close());
  return client;
}

/** A socket whose other end says this, whoever connects. */
function answeringWith(text: string): Promise<string> {
  const path = join(temporaryFolder(), 'other.sock');
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end(text);
  });
  cleanups.push(() => new Promise((resolve) => server.close(resolve)));
  return new Promise((resolve) => {
    server.listen(path, () => resolve(path));
  });
}

/** A web server that answers with this status, whatever it is asked. */
function answeringStatus(status: number): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.resume();
    socket.end(`HTTP/1.1 ${status} \r\ncontent-length: 0\r\n\r\n`);
  });
  cleanups.push(() => new Promise((resolve) => server.close(resolve)));
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  });
}
