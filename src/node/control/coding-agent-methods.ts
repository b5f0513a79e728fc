import { askGuard } from '../../coding-agents/leases/guard.js';
import type { LeaseView } from '../../coding-agents/leases/leases.js';
import { OWNER } from '../../coding-agents/mailbox/letter.js';
import type { Member } from '../../coding-agents/mailbox/member.js';
import { overview } from '../../coding-agents/overview.js';
import { runTool } from '../../coding-agents/tools/tools.js';
import { passedOn } from '../../coding-agents/wake/client-session.js';
import { readHookCall } from '../../coding-agents/wake/hook-contracts.js';
import { readClientSession } from '../../coding-agents/wake/wakes.js';
import { aborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { type ControlContext, completeId, type Handlers } from './context.js';
import type { LeaseLine } from './rows.js';

/** One process of `ecliptic mcp`, and its calls in progress. */
interface Session {
  readonly member: Member;
  readonly calls: Map<number, AbortController>;
}

/** Messages among which a shortened id is searched. */
const MAX_OWNER_MAIL = 1_000;

/** The operations of `ecliptic mcp`, of hooks and guards, and the owner's on mail between coding agents and on leases. */
export function codingAgentMethods({
  node,
  codingAgents,
  wakes,
  projects,
  answers,
}: Pick<ControlContext, 'codingAgents' | 'wakes' | 'projects' | 'answers'> & {
  node: Pick<ControlContext['node'], 'registry' | 'mail'>;
}) {
  const sessions = new Map<string, Session>();
  const sessionOf = (name: string) => {
    const session = sessions.get(name);
    if (session) return session;
    throw new EclipticError('NODE_STOPPED', 'this process is no longer a member; it joins again with the next call');
  };
  const leaseLine = (lease: LeaseView): LeaseLine => {
    const { leases, names } = codingAgents;
    return { ...lease, name: names.display(lease.holder), repositoryName: leases.nameOf(lease.repository) };
  };
  const heldId = async (given: string) => {
    const rows = await codingAgents.held();
    return rows.some(({ from }) => from === given) ? given : completeId(given, rows);
  };
  /** The full id of a message to the owner. */
  const toOwner = async (given: string) => {
    const rows = (await node.mail?.inbox(OWNER, 0, MAX_OWNER_MAIL)) ?? [];
    return completeId(given, rows);
  };
  return {
    async 'onramp.attach'({ session, shown = [], wake, client, checkout, ...member }, { emit, signal }) {
      if (sessions.has(session)) throw new EclipticError('USAGE', `a session "${session}" exists already`);
      const attached = await codingAgents.attach({ ...member, client, checkout });
      projects?.joined(attached.name, checkout);
      await attached.box.restore(shown);
      wakes.attach(attached, readClientSession(wake, { client, checkout }));
      sessions.set(session, { member: attached, calls: new Map() });
      emit({ name: attached.name });
      await aborted(signal);
      for (const call of sessions.get(session)!.calls.values()) call.abort();
      sessions.delete(session);
      wakes.detach(attached);
      codingAgents.detach(attached);
    },
    async 'onramp.call'({ session, tool, arguments: args, number = 0, seen = [], thread }) {
      const { member, calls } = sessionOf(session);
      wakes.heardCall(member, thread);
      const gone = new AbortController();
      calls.set(number, gone);
      try {
        return await runTool(member, tool, args, { number, seen, signal: gone.signal });
      } finally {
        calls.delete(number);
      }
    },
    async 'onramp.heard'({ session, seen = [], thread }) {
      const { member } = sessionOf(session);
      wakes.heardCall(member, thread);
      await member.box.prove(seen);
    },
    'onramp.cancel'({ session, number = 0 }) {
      const { member, calls } = sessionOf(session);
      calls.get(number)?.abort();
      member.box.unshow(number);
    },
    overview: () => overview(codingAgents, node.registry),
    async tell({ to, text, replyTo }) {
      try {
        return await codingAgents.tell(to, text, replyTo && (await toOwner(replyTo)));
      } catch (error) {
        if (!(error instanceof EclipticError) || error.code !== 'AGENT_NOT_FOUND') throw error;
        // The original text is for agents, and names a tool that a person does not have.
        throw new EclipticError('AGENT_NOT_FOUND', `no agent is called "${to}"`, error.details, error);
      }
    },
    async reply({ id: given, text }) {
      const id = await toOwner(given);
      const from = await codingAgents.writerToOwner(id).catch((error: unknown) => {
        throw answers.given(`mail:${id}`) ? answers.whyGone(`mail:${id}`) : error;
      });
      return { ...(await codingAgents.tell(from, text, id)), answers: id };
    },
    'owner.shown'({ ids = [] }) {
      codingAgents.showOwner(ids);
    },
    'owner.done': async ({ ids = [] }) => codingAgents.closeForOwner(await Promise.all(ids.map(toOwner))),
    projects: () => projects?.rows ?? [],
    async 'project.forget'({ folder }) {
      if (projects) return projects.forget(folder);
      throw new EclipticError('OPERATION_NOT_SUPPORTED', 'only a node in the background has agents of projects', {});
    },
    held: () => codingAgents.held(),
    'held.letIn': async ({ id }) => codingAgents.letIn(await heldId(id)),
    'held.turnAway': async ({ id }) => codingAgents.turnAway(await heldId(id)),
    leases: async () => (await codingAgents.leases.list()).map(leaseLine),
    async 'leases.release'({ id: given }) {
      const { leases } = codingAgents;
      return leaseLine(await leases.revoke(completeId(given, await leases.list())));
    },
    async 'guard.ask'({ paths = [], operations = [], ancestors = [], proves = false, ...about }) {
      const { leases, names } = codingAgents;
      const question = { ...about, paths, ancestors, proves };
      const reserved = await askGuard(leases, question);
      const isFree = reserved.length === 0;
      const changed = await codingAgents.editGuard?.ask({ ...question, operations, proves: proves && isFree });
      const denials = [...reserved, ...(changed ?? [])];
      return denials.map((denial) => ({ ...denial, holder: names.display(denial.holder) }));
    },
    async 'wake.hook'({ client, event, payload, ancestors = [], env = {} }) {
      const call = readHookCall(client, event, payload);
      if (!call) return { pointer: null };
      return { pointer: (await wakes.heardHook({ ...call, env: passedOn(env), ancestors })) ?? null };
    },
    wake: () => wakes.rows,
    'wake.test': ({ names = [], withinMs }) => wakes.test(names, withinMs),
  } satisfies Partial<Handlers>;
}
