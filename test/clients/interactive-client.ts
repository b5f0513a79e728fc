import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { expect } from 'vitest';
import { CLIENTS } from '../../src/coding-agents/setup/clients.js';
import { type Cluster, type ProcessNode, until } from '../nodes/cluster.js';
import { type Dialog, PROGRAMS, WAYS } from './coding-clients.js';
import type { ScriptedModel } from './scripted-model.js';
import { Terminal } from './terminal.js';

export interface InteractiveClientInit {
  readonly id: string;
  /** Its name on the mesh. */
  readonly as: string;
  /** The node that it joins. Default: one that it starts itself. */
  readonly node?: ProcessNode;
  /** It has a conversation of that name. */
  readonly model: ScriptedModel;
  /** More arguments of the client. */
  readonly args?: readonly string[];
}

/** What clients show while they work. */
const BUSY = /esc (?:to )?(?:interrupt|cancel)/i;
const IDLE_LOOKS = 5;
const LOOKS_BEFORE_ENTER = 100;
/** opencode starts slowly on a busy machine. */
const LIMIT_MS = 150_000;

type ConversationView = Pick<ReturnType<ScriptedModel['of']>, 'isOver' | 'offers'>;

/** A real coding agent in a terminal, after `ecliptic setup --hooks --guard`, in a repository of its own. */
export class InteractiveClient {
  readonly home: string;
  /** Its repository. */
  readonly folder: string;
  /** The configuration file with its MCP servers. */
  readonly file: string;
  /** What `ecliptic setup` said. */
  readonly setup: string;
  readonly terminal: Terminal;

  readonly #dialogs: Set<Dialog>;
  readonly #conversation: () => ConversationView;

  private constructor(
    { home, folder, file, setup, terminal }: Pick<InteractiveClient, 'home' | 'folder' | 'file' | 'setup' | 'terminal'>,
    dialogs: readonly Dialog[],
    conversation: () => ConversationView,
  ) {
    this.home = home;
    this.folder = folder;
    this.file = file;
    this.setup = setup;
    this.terminal = terminal;
    this.#dialogs = new Set(dialogs);
    this.#conversation = conversation;
  }

  static async start(cluster: Cluster, init: InteractiveClientInit): Promise<InteractiveClient> {
    const { id, as, node, model, args = [] } = init;
    const { program, settings, env, interactive } = WAYS[id]!;
    const url = model.urlOf(as);
    const home = join(cluster.folder, `home-${as}`);
    const folder = join(home, 'project');
    mkdirSync(folder, { recursive: true });
    execFileSync('git', ['init', '-q'], { cwd: folder });
    const client = CLIENTS.find((each) => each.id === id)!;
    const machine = { home, env: {}, platform: process.platform, exists: () => false, has: () => true };
    const file = client.file(machine);
    write(file, settings(url));
    for (const [name, text] of Object.entries(interactive.files?.(folder) ?? {})) write(join(home, name), text);
    const words = ['setup', id, '--as', as, '--hooks', '--guard', '--yes', ...(node ? ['--data', node.data] : [])];
    const { code, stdout, stderr } = await cluster.run(words, home);
    expect(code, stderr).toBe(0);
    const terminal = new Terminal(cluster, {
      name: as,
      command: [join(PROGRAMS, program), ...interactive.args, ...args],
      cwd: folder,
      env: {
        PATH: `${PROGRAMS}${delimiter}${process.env.PATH}`,
        HOME: home,
        TERM: 'xterm-256color',
        ...env(url),
      },
    });
    const { ready, dialogs = [] } = interactive;
    const started = new InteractiveClient({ home, folder, file, setup: stdout, terminal }, dialogs, () => model.of(as));
    await started.#until('the client can be typed to', () => ready.test(terminal.screen));
    return started;
  }

  /** Types a prompt, and waits for the end of the turn. */
  async turn(prompt: string): Promise<void> {
    const asked = () => this.#conversation().offers.length;
    const before = asked();
    await this.terminal.type(prompt);
    let looks = 0;
    await this.#until('the model is asked', () => {
      // A client that still starts may lose the key; without a prompt it does nothing.
      if (++looks % LOOKS_BEFORE_ENTER === 0 && asked() === before) this.terminal.press('Enter');
      return asked() > before;
    });
    await this.turnEnds();
  }

  /** Waits until the model has said everything, and the client has ended its turn. */
  async turnEnds(): Promise<void> {
    let quiet = 0;
    await this.#until('the turn ends', () => {
      const isIdle = this.#conversation().isOver && !BUSY.test(this.terminal.screen);
      quiet = isIdle ? quiet + 1 : 0;
      // Between two requests the screen may look idle.
      return quiet >= IDLE_LOOKS;
    });
  }

  /** Answers the questions that the client asks its person when it begins. */
  #answerDialogs(): boolean {
    const { screen } = this.terminal;
    const dialog = [...this.#dialogs].find(([question]) => question.test(screen));
    if (!dialog) return false;
    this.#dialogs.delete(dialog);
    this.terminal.press(...dialog[1]);
    return true;
  }

  async #until(what: string, isSo: () => boolean): Promise<void> {
    await until(() => !this.#answerDialogs() && isSo(), what, LIMIT_MS).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.terminal.screen}`);
    });
  }
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
