import { readFileSync, writeSync } from 'node:fs';
import { toEclipticError } from '../../runtime/errors.js';
import type { ToolAnswer, ToolCall } from './tool-report.js';
import { runTool } from './tools.js';

/** The process of one call of a tool: files are read and searched here, and what they crash is not the node. */
function answer(): ToolAnswer {
  try {
    return { report: runTool(JSON.parse(readFileSync(0, 'utf8')) as ToolCall) };
  } catch (error) {
    const { code, message } = toEclipticError(error, 'HANDLER_FAILED');
    return { error: { code, message } };
  }
}

const text = Buffer.from(`${JSON.stringify(answer())}\n`);
for (let at = 0; at < text.length; ) at += writeSync(1, text, at);
