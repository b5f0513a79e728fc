import { z } from 'zod';
import type { Agent } from '../agent/agent.js';
import type { AgentTask } from '../agent/agent-tasks.js';
import type { ToolInit } from '../mcp/offering.js';
import { EclipticError } from '../runtime/errors.js';
import { summaryOf } from './review/summary.js';
import { REPORT_FORMATS } from './tools/test-reports.js';
import type { ToolProcesses } from './tools/tool-processes.js';
import type { ToolReport } from './tools/tool-report.js';
import { reportAsText } from './tools/tool-text.js';
import type { Workspaces } from './workspaces.js';

/** Starts the tests of a workspace. */
export interface TestRuns {
  /** Runs the test command of the folder, once the owner has allowed it. */
  run(folder: string, asked: { caller: string; signal?: AbortSignal | undefined }): Promise<ToolReport>;
}

export interface RosterToolsComponents {
  processes: ToolProcesses;
  workspaces: Workspaces;
  /** Without it, no test is run. */
  testRuns?: TestRuns | undefined;
}

interface RosterTool {
  readonly agent: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** The capability that the tool is the worker for. */
  readonly capability?: string;
  readonly args?: z.ZodRawShape;
}

const since = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .describe('Only findings on lines that changed since this revision of git.');

/** The tools of the roster. All read files only; each finding has a file, a line and its evidence. */
export const ROSTER_TOOLS: readonly RosterTool[] = [
  {
    agent: 'enceladus',
    name: 'secrets',
    title: 'Find secrets in a repository',
    description: 'Finds keys, tokens and passwords in the files of a workspace. Their values are not in the findings.',
    capability: 'security.review',
    args: { since },
  },
  {
    agent: 'jupiter',
    name: 'imports',
    title: 'Import graph of a repository',
    description: 'Follows the imports of JavaScript, TypeScript, Python and Ruby: cycles, and files that do not exist.',
    capability: 'architecture.review',
    args: { since },
  },
  {
    agent: 'neptune',
    name: 'history',
    title: 'History of a repository',
    description: 'Reads the history of git: churn, ownership, and hot spots, which are large files that change often.',
    capability: 'analytics.metrics',
  },
  {
    agent: 'uranus',
    name: 'leftovers',
    title: 'Leftovers in a repository',
    description: 'Finds merge conflicts that were not resolved, and debugger statements; counts lines by language.',
    capability: 'research.search',
    args: { since },
  },
  {
    agent: 'uranus',
    name: 'search',
    title: 'Search a repository',
    description: 'Finds the lines of a workspace that contain a text or match a regular expression.',
    args: {
      pattern: z.string().min(1).max(1_000).describe('The text to look for.'),
      regex: z.boolean().optional().describe('Is the pattern a regular expression of JavaScript?'),
      ignoreCase: z.boolean().optional(),
      path: z.string().max(1_000).optional().describe('Only files whose path contains this.'),
      limit: z.int().positive().max(1_000).default(100),
    },
  },
  {
    agent: 'uranus',
    name: 'outline',
    title: 'Symbols of a repository',
    description: 'Lists the functions, classes and types of files with their lines.',
    args: { path: z.string().max(1_000).optional().describe('Only files whose path contains this.') },
  },
  {
    agent: 'mercury',
    name: 'validate',
    title: 'Validate JSON and YAML',
    description:
      'Checks JSON and YAML: syntax, repeated keys, the schema that a file names, package.json and workflows of GitHub. With `file` and `schema`, one file by one schema.',
    capability: 'validation.data',
    args: {
      since,
      file: z.string().min(1).max(1_000).optional().describe('One file of the workspace. Default: all.'),
      schema: z
        .string()
        .min(1)
        .max(1_000)
        .optional()
        .describe('A file of the workspace with the JSON Schema for `file`.'),
    },
  },
  {
    agent: 'saturn',
    name: 'report',
    title: 'Read test reports',
    description:
      'Reads reports of tests (JUnit, TAP, and the output of vitest, jest, pytest and go) and finds focused tests. Runs nothing.',
    capability: 'testing.unit',
    args: {
      since,
      report: z.string().min(1).max(1_000).optional().describe('The file of one report. Default: all that are found.'),
      format: z.enum(REPORT_FORMATS).optional().describe('Default: recognised.'),
    },
  },
];

/** One tool for each role: what a review is made of. */
export const REVIEW_TOOLS = ROSTER_TOOLS.flatMap(({ agent, name, capability }) => {
  return capability === undefined ? [] : [{ agent, name, capability }];
});

const RUN_TESTS = 'run_tests';
const MINUTE_MS = 60_000;
const workspace = z
  .string()
  .min(1)
  .max(4_096)
  .optional()
  .describe('The folder. Default: the checkout of a coding agent, or the folder of the node’s ecliptic.json.');
const format = z.enum(['text', 'json']).default('text').describe('How the result is written.');

/** The capabilities that the tools of a role are the worker for. */
export function toolCapabilities(role: string): string[] {
  return ROSTER_TOOLS.flatMap(({ agent, capability }) =>
    agent === role && capability !== undefined ? [capability] : [],
  );
}

/** Why a role whose worker is its tools takes no other work. */
export function toolVacancy(role: string, fix: string): { readonly reason: string; readonly fix: string } {
  const works = toolCapabilities(role).join(', ');
  return { reason: `its tools do tasks for ${works} on a workspace, and nothing else`, fix };
}

/** Offers the tools of the agent's role. */
export function offerRosterTools(agent: Agent, components: RosterToolsComponents): void {
  const { processes, workspaces, testRuns } = components;
  const tools = ROSTER_TOOLS.filter(({ agent: role }) => role === agent.id).map(
    ({ name, title, description, args = {} }): ToolInit => ({
      name,
      title,
      description,
      annotations: { readOnlyHint: true, openWorldHint: false },
      inputSchema: z.object({ workspace, ...args, format }),
      handler: async (given, call) => {
        const { workspace: asked, format: wanted, ...rest } = given as Record<string, unknown>;
        const folder = workspaces.locate(asked as string | undefined, call.caller);
        const report = await processes.run({ tool: `${agent.id}.${name}`, folder, args: rest }, call.signal);
        return wanted === 'json' ? report : reportAsText(report);
      },
    }),
  );
  if (agent.id === 'saturn' && testRuns) tools.push(runTestsTool(workspaces, testRuns));
  if (tools.length > 0) agent.tools(tools);
}

function runTestsTool(workspaces: Workspaces, testRuns: TestRuns): ToolInit {
  return {
    name: RUN_TESTS,
    title: 'Run the tests of a repository',
    description:
      'Runs the test command of a workspace (npm test, pytest, go test, cargo test) and reads its output. It runs code of the repository, so the owner is asked first.',
    annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
    timeoutMs: 11 * MINUTE_MS,
    inputSchema: z.object({ workspace, format }),
    handler: async (given, call) => {
      const { workspace: asked, format: wanted } = given as { workspace?: string; format: string };
      const folder = workspaces.locate(asked, call.caller);
      const report = await testRuns.run(folder, { caller: call.caller, signal: call.signal });
      return wanted === 'json' ? report : reportAsText(report);
    },
  };
}

/** What a task of a tool takes as its input. */
const TaskInputSchema = z.looseObject({
  workspace: z.string().min(1).max(4_096),
  /** The name of a tool, for a task that asks for no capability. */
  tool: z.string().max(100).optional(),
  /** Of SATURN: run the tests. */
  run: z.boolean().optional(),
  since: z.string().max(200).optional(),
  format: z.enum(['text', 'json']).optional(),
});

/** The input of the task that puts the results of others together. */
const SummaryInputSchema = z.looseObject({ tool: z.literal('summary') });
const SUMMARY_ROLE = 'uranus';

/** Makes the tools the worker of the role, for the capabilities that they implement. */
export function workByRosterTools(agent: Agent, components: RosterToolsComponents): void {
  const capabilities = toolCapabilities(agent.id);
  if (capabilities.length === 0) return;
  agent.onTask((task) => doRosterTask(agent.id, task, components), { capabilities });
}

/** Does a task by the tool of the role that it asks for, or puts earlier results together. */
async function doRosterTask(
  role: string,
  task: AgentTask,
  components: RosterToolsComponents,
): Promise<ToolReport | string> {
  if (role === SUMMARY_ROLE && SummaryInputSchema.safeParse(task.input).success) return summaryOf(task.results);
  const report = await reportFor(role, task, components);
  return TaskInputSchema.parse(task.input).format === 'text' ? reportAsText(report) : report;
}

/** The report of the tool that a task asks for. Throws `NO_WORKER` for any other task. */
export async function reportFor(role: string, task: AgentTask, components: RosterToolsComponents): Promise<ToolReport> {
  const { processes, workspaces, testRuns } = components;
  const input = TaskInputSchema.safeParse(task.input);
  const chosen = input.success ? chooseTool(role, task.capabilities, input.data.tool) : undefined;
  if (!input.success || !chosen) throw beyond(role);
  const { workspace: asked, run, since: revision } = input.data;
  const folder = workspaces.locate(asked, task.asker);
  if (run === true && chosen.agent === 'saturn') {
    if (!testRuns) throw beyond(role);
    return testRuns.run(folder, { caller: task.asker, signal: task.signal });
  }
  const args = revision === undefined ? {} : { since: revision };
  return processes.run({ tool: `${chosen.agent}.${chosen.name}`, folder, args }, task.signal);
}

/** The tool that the task names, or the one for the capabilities that it asks for; none, if it asks for others too. */
function chooseTool(role: string, capabilities: readonly string[], named: string | undefined): RosterTool | undefined {
  const tools = ROSTER_TOOLS.filter(({ agent, capability }) => agent === role && capability !== undefined);
  const able = tools.filter(({ capability }) => capabilities.every((one) => one === capability));
  if (named !== undefined) return able.find(({ name }) => name === named);
  return capabilities.length > 0 ? able[0] : undefined;
}

function beyond(role: string): EclipticError {
  const tools = ROSTER_TOOLS.filter(({ agent, capability }) => agent === role && capability !== undefined);
  const example = JSON.stringify({ workspace: '.', tool: tools[0]?.name });
  const works = toolCapabilities(role).join(', ');
  const message = `${role} has no worker for this: its tools do tasks that ask for ${works} or name the tool, with an input such as ${example}. To staff it: ecliptic staff --roles ${role}`;
  return new EclipticError('NO_WORKER', message, { agentId: role });
}
