import type { Runtime } from '../../runtime/runtime.js';
import type { Children } from '../../system/process/children.js';
import { ClaudeSocket } from './claude-socket.js';
import { type ClientSession, wakeClientOf } from './client-session.js';
import { CodexQueue } from './codex-queue.js';
import { OpencodePrompt } from './opencode-prompt.js';
import type { WakeAdapter } from './wake-adapter.js';

/** The way in to that session by what is known of it, or why there is none. */
export type AdapterFor = (session: ClientSession) => WakeAdapter | string;

export function clientAdapters(runtime: Runtime, children: Children): AdapterFor {
  return (session) => {
    switch (wakeClientOf(session.client)) {
      case 'claude-code':
        return ClaudeSocket.for(runtime, session);
      case 'codex':
        return CodexQueue.for(runtime, children, session);
      case 'opencode':
        return OpencodePrompt.for(runtime, session);
      case 'gemini':
      case 'cursor':
        return 'nothing starts a turn of it from outside; its hook can prolong one';
      case undefined:
        return 'no way to wake it is known';
    }
  };
}
