import type { CodingAgents } from '../../coding-agents/coding-agents.js';
import type { Member } from '../../coding-agents/mailbox/member.js';
import { overview } from '../../coding-agents/overview.js';
import { runTool } from '../../coding-agents/tools/tools.js';
import { readClientSession, type Wakes } from '../../coding-agents/wake/wakes.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { aborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** One process on the on-ramp, and its calls under way. */
interface Session {
  readonly member: Member;
  readonly calls: Map<number, AbortController>;
}

/** What `ecliptic mcp`, and the owner's commands about mail between agents, ask of the node. */
export function codingAgentMethods(
  codingAgents: () => CodingAgents,
  wakes: () => Wakes,
  registry: AgentRegistry,
): Readonly<Record<string, ControlMethod>> {
  const sessions = new Map<string, Session>();
  const sessionOf = (read: Params) => {
    const session = sessions.get(read.string('session'));
    if (session) return session;
    throw new EclipticError('NODE_STOPPED', 'this process is not a member any more; it joins again with the next call');
  };
  return {
    /** Makes the calling process a member for as long as it stays connected. */
    async 'onramp.attach'(params, { emit, signal }) {
      const read = new Params(params);
      const session = read.string('session');
      if (sessions.has(session)) throw new EclipticError('USAGE', 'there is a session of that name already');
      const { as, tier, sandbox } = read.optional({ as: 'string', tier: 'number', sandbox: 'string' });
      const capabilities = textList(read, 'capabilities');
      const about = { client: read.string('client'), checkout: read.string('checkout') };
      const place = { ...(tier !== undefined && { tier: tier as 0 }), ...(sandbox !== undefined && { sandbox }) };
      const ancestors = read.listOf('ancestors', (pid) => typeof pid === 'number', 'a list of processes');
      const member = await codingAgents().attach({ as, ...about, capabilities, ancestors, ...place });
      await member.box.restore(textList(read, 'shown'));
      wakes().attach(member, readClientSession(params.wake, about));
      sessions.set(session, { member, calls: new Map() });
      emit({ name: member.name });
      await aborted(signal);
      for (const call of sessions.get(session)!.calls.values()) call.abort();
      sessions.delete(session);
      wakes().detach(member);
      codingAgents().detach(member);
    },
    async 'onramp.call'(params) {
      const read = new Params(params);
      const { member, calls } = sessionOf(read);
      const { number = 0 } = read.optional({ number: 'number' });
      const seen = textList(read, 'seen');
      wakes().heardCall(member, read.optional({ thread: 'string' }).thread);
      const gone = new AbortController();
      calls.set(number, gone);
      try {
        const call = { number, seen, signal: gone.signal };
        return await runTool(member, read.string('tool'), read.value('arguments'), call);
      } finally {
        calls.delete(number);
      }
    },
    /** The member's client called something else, and had been given these messages by then. */
    async 'onramp.heard'(params) {
      const read = new Params(params);
      const { member } = sessionOf(read);
      wakes().heardCall(member, read.optional({ thread: 'string' }).thread);
      await member.box.prove(textList(read, 'seen'));
    },
    'onramp.cancel'(params) {
      const read = new Params(params);
      const { number = 0 } = read.optional({ number: 'number' });
      const { member, calls } = sessionOf(read);
      calls.get(number)?.abort();
      member.box.unshow(number);
    },
    /** What is going on among coding agents, at one glance. */
    overview() {
      return overview(codingAgents(), registry);
    },
    async tell(params) {
      const read = new Params(params);
      const to = read.string('to');
      const { replyTo } = read.optional({ replyTo: 'string' });
      try {
        return await codingAgents().tell(to, read.string('text'), replyTo);
      } catch (error) {
        if (!(error instanceof EclipticError) || error.code !== 'AGENT_NOT_FOUND') throw error;
        // The error is worded for agents, and names a tool that a person does not have.
        throw new EclipticError('AGENT_NOT_FOUND', `no agent is called "${to}"`, error.details, error);
      }
    },
    'owner.shown'(params) {
      codingAgents().showOwner(textList(new Params(params), 'ids'));
    },
    'owner.done'(params) {
      return codingAgents().closeForOwner(textList(new Params(params), 'ids'));
    },
    held() {
      return codingAgents().held();
    },
    'held.letIn'(params) {
      return codingAgents().letIn(new Params(params).string('id'));
    },
    'held.turnAway'(params) {
      return codingAgents().turnAway(new Params(params).string('id'));
    },
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function textList(read: Params, name: string): string[] {
  return read.listOf(name, isText, 'a list of texts') ?? [];
}
