import type { AgentTask } from '../agent/agent-tasks.js';
import { createNode } from '../node/compose.js';
import { PLANETARY_ROSTER } from '../roster/planetary-roster.js';
import { type PartResult, type ReviewReport, reviewReport } from '../roster/review/review-report.js';
import { REVIEW_TOOLS, type RosterToolsComponents, reportFor } from '../roster/roster-tools.js';
import { TestRunner } from '../roster/test-runs.js';
import { ToolProcesses } from '../roster/tools/tool-processes.js';
import { realRoot } from '../roster/tools/workspace-files.js';
import { Workspaces } from '../roster/workspaces.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { Children } from '../system/process/children.js';

interface ReviewOptions {
  readonly since?: string | undefined;
  readonly runTests: boolean;
}

/** Of one agent. All run at once, so this is the limit of a review without tests. */
const PART_MS = 20_000;

/** A swarm of the roster, on a node of its own without a network, reviews a repository. */
export async function reviewRepository(path: string, { since, runTests }: ReviewOptions): Promise<ReviewReport> {
  const folder = realRoot(path);
  const runtime = systemRuntime();
  const began = runtime.stopwatch();
  const node = await createNode({ runtime });
  const children = await Children.open(runtime);
  const processes = new ToolProcesses({ runtime, children, timeoutMs: PART_MS, atOnce: REVIEW_TOOLS.length });
  try {
    const testRuns = new TestRunner({ runtime, children, processes, permit: async () => {} });
    const components = { processes, workspaces: new Workspaces({ foldersFor: () => [folder] }), testRuns };
    const sun = node.agent(PLANETARY_ROSTER.find(({ id }) => id === 'sun')!);
    for (const role of PLANETARY_ROSTER.filter(({ id }) => REVIEW_TOOLS.some(({ agent }) => agent === id))) {
      const agent = node.agent(role);
      agent.onTask((task) => part(agent.id, task, components, () => runtime.stopwatch()));
    }
    const plan = REVIEW_TOOLS.map(({ agent, name, capability }) => ({
      id: agent,
      description: `${agent.toUpperCase()} reviews ${folder}`,
      requiredCapabilities: [capability],
      input: {
        workspace: folder,
        tool: name,
        ...(since !== undefined && { since }),
        ...(agent === 'saturn' && runTests && { run: true }),
      },
    }));
    const capabilities = REVIEW_TOOLS.map(({ capability }) => capability);
    const swarm = sun.swarm(`Review ${folder}`, {
      capabilities,
      plan,
      justification: 'a review that the owner asked for',
    });
    const { results } = await swarm.result;
    const parts = REVIEW_TOOLS.map(({ agent }) => results[agent] as PartResult);
    const refused = parts.find((one) => 'code' in one && one.code === 'INVALID_ARGUMENTS') as
      | { failed: string }
      | undefined;
    if (refused) throw new EclipticError('INVALID_ARGUMENTS', refused.failed);
    return reviewReport(
      { workspace: folder, ms: Math.round(runtime.stopwatch() - began), ...(since !== undefined && { since }) },
      parts,
    );
  } finally {
    await processes.close();
    await children.close();
    await node.stop();
  }
}

/** A tool that fails leaves its part of the review empty, and not the whole. */
async function part(
  agent: string,
  task: AgentTask,
  components: RosterToolsComponents,
  clock: () => number,
): Promise<PartResult & { code?: string }> {
  const began = clock();
  const ms = () => Math.round(clock() - began);
  try {
    return { report: await reportFor(agent, task, components), ms: ms() };
  } catch (error) {
    const code = error instanceof EclipticError ? error.code : 'HANDLER_FAILED';
    return { agent, tool: agent, failed: describeError(error), ms: ms(), code };
  }
}
