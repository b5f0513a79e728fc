import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { stablePort } from './ports.js';
import { removeFolder } from './remove-folder.js';
import { BIN, ROOT } from './source-files.js';

/** A fenced block of a page: its language, a word after it, and its text. */
export interface Block {
  readonly language: string;
  readonly about: string;
  readonly text: string;
}

export function blocksOf(page: string): Block[] {
  return [...page.matchAll(/^```(\w*) ?([\w-]*)\n([\s\S]*?)^```$/gm)].map(([, language, about, text]) => ({
    language: language!,
    about: about!,
    text: text!,
  }));
}

interface Step {
  readonly command: string;
  readonly shown: string;
}

/** The commands of a terminal session, each with the output that is shown under it. */
export function stepsOf(text: string): Step[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((step) => {
      const [command, ...shown] = step.split('\n');
      return { command: command!, shown: shown.join('\n') };
    });
}

/** Words such as ID and CODE: what a command prints in their place is put into later commands. */
const CAPTURED = /\b(?:ID|CODE)\b/g;

/** Matches the output that is shown; … stands for any text, ID and CODE for one word. */
export function pattern(shown: string): RegExp {
  const parts = shown.split(/(…|\b(?:ID|CODE)\b)/);
  const seen = new Set<string>();
  const source = parts.map((part) => {
    if (part === '…') return '[\\s\\S]*?';
    if (!/^(?:ID|CODE)$/.test(part)) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    if (seen.has(part)) return `\\k<${part}>`;
    seen.add(part);
    return `(?<${part}>[^\\s"]+)`;
  });
  return new RegExp(`^${source.join('')}$`);
}

/** Commands that change nothing. */
const READS = /\b(?:peer list|receipt|request|inbox|task list|tasks\/\S+)\b/;
const READ_TRIES = 60;

type Child = ReturnType<typeof spawn>;

/** Runs the terminal sessions of one page. Each device of the page has a home folder and at most one node. */
export class PageSession {
  readonly #folder: string;
  readonly #user: string | undefined;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #variables: Record<string, string> = {};
  readonly #captured: Record<string, string> = {};
  readonly #ports = new Map<string, number>();
  readonly #nodes = new Map<string, Child>();
  /** Options added to `ecliptic up`, so that a node reaches no other machine. */
  readonly #upOptions: string;

  /** With `user`, a folder where the package is installed; otherwise a folder with links to this repository. */
  constructor({ user, upOptions = '' }: { user?: string; upOptions?: string } = {}) {
    this.#folder = mkdtempSync(join(tmpdir(), 'ecliptic-page-'));
    this.#upOptions = upOptions;
    const bin = join(this.#folder, 'bin');
    mkdirSync(bin);
    this.#user = user;
    if (user === undefined) symlinkSync(BIN, join(bin, 'ecliptic'));
    const { ECLIPTIC_DATA: _, ECLIPTIC_CONFIG: __, XDG_STATE_HOME: ___, ...rest } = process.env;
    this.#environment = {
      ...rest,
      ...{ PATH: `${bin}:${process.env.PATH}`, BROWSER: 'none', NO_COLOR: '1', npm_config_loglevel: 'error' },
    };
  }

  /** Runs the sessions of a page in their order. */
  async run(page: string): Promise<void> {
    for (const { language, about, text } of blocksOf(page)) {
      if (language !== 'console') continue;
      const device = about || 'here';
      for (const step of stepsOf(text)) await this.#step(device, step);
    }
  }

  async end(): Promise<void> {
    for (const node of this.#nodes.values()) {
      if (node.exitCode !== null || node.signalCode !== null) continue;
      const ended = once(node, 'exit');
      process.kill(-node.pid!, 'SIGKILL');
      await ended;
    }
    await removeFolder(this.#folder);
  }

  async #step(device: string, { command, shown }: Step): Promise<void> {
    const port = await this.#port(device);
    const line = command
      .replace(CAPTURED, (word) => this.#captured[word] ?? word)
      .replaceAll('127.0.0.1:3000', `127.0.0.1:${port}`);
    const variable = /^(\w+)=\$\((.*)\)$/.exec(line);
    if (variable) {
      this.#variables[variable[1]!] = (await this.#output(device, variable[2]!)).trim();
      return;
    }
    if (/^(?:npx )?ecliptic up\b/.test(line)) return this.#up(device, line, shown);
    let output = '';
    let match: RegExpExecArray | null = null;
    // What other processes do meanwhile is asked for again, as a person would.
    for (let tries = READS.test(line) ? READ_TRIES : 1; tries > 0 && !match; tries--) {
      // As a terminal shows it: both streams in their order.
      output = (await this.#output(device, `exec 2>&1; ${line}`)).trim();
      match = pattern(shown.trim()).exec(output);
    }
    if (!match) expect(output, `what "${command}" prints`).toMatch(pattern(shown.trim()));
    Object.assign(this.#captured, match?.groups);
    const node = this.#nodes.get(device);
    if (!/^(?:npx )?ecliptic down\b/.test(line) || !node) return;
    if (node.exitCode === null && node.signalCode === null) await once(node, 'exit');
  }

  /** A node stays until the end of the page, or `ecliptic down`; its first line is shown. */
  async #up(device: string, line: string, shown: string): Promise<void> {
    const options = `--no-browser --log error ${this.#upOptions}`;
    const node = this.#start(device, `${line} ${options}`);
    this.#nodes.set(device, node);
    let text = '';
    for await (const chunk of node.stdout!) {
      text += chunk;
      if (text.includes('\n')) break;
    }
    // What it prints later must not fill the pipe.
    node.stdout!.resume();
    expect(text.split('\n')[0]).toMatch(pattern(shown.trim()));
  }

  async #output(device: string, line: string): Promise<string> {
    const child = this.#start(device, line);
    let output = '';
    child.stdout!.on('data', (chunk) => {
      output += chunk;
    });
    child.stderr!.resume();
    await once(child, 'close');
    return output;
  }

  #start(device: string, line: string): Child {
    const env = { ...this.#environment, ...this.#variables, HOME: join(this.#folder, `home-${device}`) };
    const port = String(this.#ports.get(device));
    return spawn('bash', ['-c', line], { cwd: this.#cwd(device), env: { ...env, PORT: port }, detached: true });
  }

  async #port(device: string): Promise<number> {
    const known = this.#ports.get(device);
    if (known !== undefined) return known;
    const port = await stablePort();
    this.#ports.set(device, port);
    mkdirSync(join(this.#folder, `home-${device}`));
    if (this.#user === undefined) {
      const packages = join(this.#cwd(device), 'node_modules');
      mkdirSync(packages, { recursive: true });
      symlinkSync(ROOT, join(packages, 'ecliptic'));
      symlinkSync(join(ROOT, 'node_modules', 'jiti'), join(packages, 'jiti'));
    }
    return port;
  }

  #cwd(device: string): string {
    return this.#user ?? join(this.#folder, device);
  }
}
