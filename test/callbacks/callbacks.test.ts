import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../source-files.js';
import { publicCallbacks } from './public-callbacks.js';

const PROGRAM = fileURLToPath(new URL('failing-callbacks.ts', import.meta.url));

/** Reached by another name, whose callbacks these are. */
const SAME: Readonly<Record<string, string>> = {
  'ACPClientAdapter.onCrash': 'CommandAdapter.onCrash',
  'ACPClientAdapter.onReady': 'CommandAdapter.onReady',
  'MCPBridgeAdapter.onCrash': 'CommandAdapter.onCrash',
  'MCPBridgeAdapter.onReady': 'CommandAdapter.onReady',
  'ProcessAdapter.onCrash': 'CommandAdapter.onCrash',
  'ProcessAdapter.onReady': 'CommandAdapter.onReady',
  'ProviderAdapter.onCrash': 'CommandAdapter.onCrash',
  'ProviderAdapter.onReady': 'CommandAdapter.onReady',
  'AgentCore.onChannel': 'Agent.onChannel',
  'AgentCore.onMessage': 'Agent.onMessage',
  'AgentCore.onNotification': 'Agent.onNotification',
  'AgentCore.onRequest': 'Agent.onRequest',
  'AgentCore.onStream': 'Agent.onStream',
  'AgentCore.onUnread': 'Agent.onUnread',
  'SwarmParticipation.watch': 'SwarmCoordinator.watch',
  'InboxCursor.onArrival': 'Mail.openInbox',
  'LiveDocument.onChange': 'SharedDocument.onChange',
  'LiveDocument.onMember': 'SharedDocument.onMember',
  'LiveDocument.onUpdate': 'SharedDocument.onUpdate',
  'Mail.onUnread': 'Agent.onUnread',
};

/** Named like a callback, and none of the embedding program's. */
const NONE: ReadonlySet<string> = new Set([
  // Guarded by the adapter that passes it on, as `ExecuteTerms.onUpdate`.
  'TurnTerms.onUpdate',
  // The report itself.
  'AgentRegistryComponents.onCallbackFailed',
  'ToolTasksComponents.onCallbackFailed',
  // Callbacks from a transport to its connection.
  'LinkListener.onClose',
  'LinkListener.onDrain',
  'LinkListener.onFrame',
  // Set by the node's own wake-up of coding agents.
  'MemberMail.onArrival',
  'MemberMail.onRead',
  'MemberMail.onShown',
  'MemberTasks.onHeard',
  'MemberTasks.onOffer',
  // Set by the agent that a negotiator or a coordinator belongs to.
  'NegotiatorInit.onObserved',
  'NegotiatorInit.onReceived',
  'ParticipationComponents.onAbandoned',
  'ParticipationComponents.onEscalation',
  'ParticipationComponents.onNews',
  // Part of the check, which rejects with its failure and withdraws the question.
  'CheckOptions.onWaiting',
  // Heard by sends and streams of the task service.
  'StoredTask.watch',
  // Awaited by `Lanes.reopen`, which rejects with its failure.
  'Lanes.onReopen',
  // Heard by the adapter and the catalogue of the node itself.
  'Upstream.watch',
  // Gives an iterator.
  'OperatorTasks.follow',
  // Between parts of the node itself.
  'Leases.onChange',
  'MeshBinding.onAvailable',
  'Patience.onGone',
  'Radar.onChange',
  'ToolTasks.onChange',
  'WorkPlaces.onChange',
  'DirectoryListener.onEntry',
  'DirectoryListener.onGone',
  'DirectoryListener.onHeard',
  'DirectoryListener.onOutdone',
  'NodeDirectory.onGone',
  'Registers.onReachable',
  'Registers.watch',
  'SharedLogs.watch',
  'RequestTerms.onGone',
  // A table of the store.
  'Tables.watches',
]);

describe('a program that embeds a node', () => {
  it.each(['throw', 'reject'])(
    'keeps running, and gets a report of the failure, when any of its callbacks %ss [T-C1]',
    {
      timeout: 120_000,
    },
    async (mode) => {
      const tested = publicCallbacks().flatMap((name) => (NONE.has(name) ? [] : [SAME[name] ?? name]));
      const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, mode], { cwd: ROOT });
      const code = new Promise((resolve) => child.once('close', resolve));
      const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
      expect({ code: await code, errors }).toMatchObject({ code: 0 });
      const { called, reports } = JSON.parse(out) as { called: string[]; reports: string[] };
      expect([...new Set(called)].sort()).toEqual([...new Set(tested)].sort());
      expect(called.filter((name) => !reports.some((report) => report.includes(`callback ${name}.`)))).toEqual([]);
    },
  );
});
