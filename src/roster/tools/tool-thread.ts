import { parentPort, workerData } from 'node:worker_threads';
import { toEclipticError } from '../../runtime/errors.js';
import type { ToolAnswer, ToolCall } from './tool-report.js';
import { runTool } from './tools.js';

/** The thread of one call of a tool: files are read and searched here, so that the node never waits for them. */
function answer(): ToolAnswer {
  try {
    return { report: runTool(workerData as ToolCall) };
  } catch (error) {
    const { code, message } = toEclipticError(error, 'HANDLER_FAILED');
    return { error: { code, message } };
  }
}

parentPort?.postMessage(answer());
