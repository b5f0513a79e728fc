import { isDeepStrictEqual } from 'node:util';
import { editJson, readJson } from '../../coding-agents/setup/entries.js';
import { EclipticError } from '../../runtime/errors.js';
import { onOneLine } from './first-config.js';
import type { StaffedConfig } from './proposal.js';

const NEW_FILE = `{
  "$schema": "./node_modules/ecliptic/schema/ecliptic.schema.json",
  "agents": {}
}
`;
const MARK = '\ufeff';

/** An agent, and what its entry says of its workers: one, or several in order of preference. */
export interface Entry {
  readonly role: string;
  readonly workers: readonly { readonly config: object }[];
}

/** The configuration in a file's text. Only its shape is checked, so that a fault elsewhere does not prevent staffing. */
export function readStaffedConfig(text: string | undefined): StaffedConfig {
  if (text === undefined || withoutMark(text).trim() === '') return {};
  const config = readJson(withoutMark(text)) as { agents?: unknown };
  const { agents = {} } = config;
  if (!isRecord(agents)) throw unfit('"agents" is not an object');
  const odd = Object.keys(agents).find((id) => !isRecord(agents[id]) && !Array.isArray(agents[id]));
  if (odd !== undefined) throw unfit(`agents.${odd} is neither an object nor a list`);
  return { ...config, agents };
}

/** The text with the assigned workers. Comments and all other bytes stay; without a text, that of a new file. */
export function staffedText(text: string | undefined, assignments: readonly Entry[]): string {
  const before = readStaffedConfig(text);
  const isNew = text === undefined || withoutMark(text).trim() === '';
  const plain = isNew ? NEW_FILE : withoutMark(text);
  const after = assignments.reduce((edited, assignment) => withWorkers(edited, before, assignment), plain);
  assertOnlyAdded(isNew ? readStaffedConfig(NEW_FILE) : before, after, assignments);
  return text?.startsWith(MARK) ? MARK + after : after;
}

function withWorkers(text: string, { agents = {} }: StaffedConfig, assignment: Entry): string {
  const { role, workers } = assignment;
  const present = agents[role];
  if (!Object.hasOwn(agents, role) || !isRecord(present)) return inserted(text, ['agents', role], entryOf(assignment));
  return Object.entries(workers[0]!.config).reduce(
    (edited, [key, value]) => inserted(edited, ['agents', role, key], value),
    text,
  );
}

/** Inserts a value as a person would write it: a worker on one line. `editJson` alone would take a line for each key. */
function inserted(text: string, path: readonly string[], value: unknown): string {
  let place = 'worker';
  while (text.includes(place)) place += '-';
  const edited = editJson(text, [...path], place);
  const at = edited.indexOf(JSON.stringify(place));
  const line = edited.slice(edited.lastIndexOf('\n', at) + 1, at);
  const indent = /^[ \t]*/.exec(line)![0];
  const unit = /^([ \t]+)\S/m.exec(edited)?.[1] ?? '  ';
  const eol = edited.includes('\r\n') ? '\r\n' : '\n';
  const lines = Array.isArray(value) ? value.map((one) => `${eol}${indent}${unit}${onOneLine(one)}`) : undefined;
  const written = lines ? `[${lines.join(',')}${eol}${indent}]` : onOneLine(value);
  return edited.slice(0, at) + written + edited.slice(at + JSON.stringify(place).length);
}

function entryOf({ workers }: Entry): unknown {
  const configs = workers.map(({ config }) => config);
  return configs.length === 1 ? configs[0] : configs;
}

/** An edit goes wrong where a key is there twice: readers take the last one, the editor the first. */
function assertOnlyAdded(before: StaffedConfig, after: string, assignments: readonly Entry[]): void {
  const agents: Record<string, unknown> = { ...before.agents };
  for (const assignment of assignments) {
    const present = agents[assignment.role];
    const isKept = Object.hasOwn(agents, assignment.role) && isRecord(present);
    agents[assignment.role] = isKept ? { ...present, ...assignment.workers[0]!.config } : entryOf(assignment);
  }
  const expected = JSON.parse(JSON.stringify({ ...before, agents }));
  if (!isDeepStrictEqual(JSON.parse(JSON.stringify(readJson(after))), expected)) {
    throw unfit('it cannot be edited without a change elsewhere (is a key there twice?); enter the workers by hand');
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function withoutMark(text: string): string {
  return text.startsWith(MARK) ? text.slice(MARK.length) : text;
}

function unfit(reason: string): EclipticError {
  return new EclipticError('INVALID_CONFIG', reason);
}
