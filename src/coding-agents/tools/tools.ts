import { EclipticError } from '../../runtime/errors.js';
import type { Member } from '../mailbox/member.js';
import { leaseTool } from './lease-tool.js';
import { inboxTool, lookupTool, sendTool } from './mail-tools.js';
import { callTool, peersTool } from './peer-tools.js';
import { stateTool } from './state-tool.js';
import { taskTool } from './task-tool.js';
import type { Answer, MeshCall, MeshTool } from './tool.js';

/** One call as it comes from the member's process. */
export interface MemberCall extends MeshCall {
  /** Ids of messages that the client had received before it made this call: the call proves that they were read. */
  readonly seen: readonly string[];
}

const TOOLS: Readonly<Record<string, MeshTool>> = {
  mesh_peers: peersTool,
  mesh_send: sendTool,
  mesh_inbox: inboxTool,
  mesh_lookup: lookupTool,
  mesh_task: taskTool,
  mesh_state: stateTool,
  mesh_call: callTool,
  mesh_lease: leaseTool,
};

/** Runs a mesh tool for a member. The answer ends with news of mail and tasks that the member has not heard of. */
export async function runTool(member: Member, name: string, args: unknown, call: MemberCall): Promise<Answer> {
  const { box, tasks, names, repeats } = member;
  await box.prove(call.seen);
  const tool = Object.hasOwn(TOOLS, name) ? TOOLS[name]! : undefined;
  if (!tool) throw new EclipticError('TOOL_NOT_FOUND', `there is no tool "${name}"`);
  const run = () => tool(member, args, call);
  try {
    const answer = await (mustRunOnce(name, args) ? repeats.once(name, args, run) : run());
    if (call.signal.aborted) {
      // The client gave up and reads no answer: messages in it stay unread, and news stays untold.
      box.unshow(call.number);
      return answer;
    }
    const news = [...(await member.announce()), ...tasks.announce((address) => names.display(address))];
    return news.length === 0 ? answer : { ...answer, text: [answer.text, ...news].join('\n') };
  } catch (error) {
    box.unshow(call.number);
    throw error;
  }
}

function mustRunOnce(tool: string, args: unknown): boolean {
  return tool === 'mesh_send' || (tool === 'mesh_task' && (args as { action?: unknown } | null)?.action === 'offer');
}
