import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const IDENTITY = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', '-c', 'init.defaultBranch=main'];

/** A git repository in a temporary folder of its own. */
export class Repository {
  /** Holds the repository, and whatever a test puts beside it. */
  readonly home: string;
  readonly folder: string;

  private constructor(home: string, name: string) {
    this.home = home;
    this.folder = join(home, name);
  }

  /** With one commit of these files, or with none. */
  static create(files: Readonly<Record<string, string>> = { 'a.txt': 'one\n' }, name = 'project'): Repository {
    const repository = new Repository(realpathSync(mkdtempSync(join(tmpdir(), 'ecliptic-git-'))), name);
    mkdirSync(repository.folder);
    repository.git('init', '--quiet');
    if (Object.keys(files).length > 0) repository.commit(files);
    return repository;
  }

  git(...args: readonly string[]): string {
    return this.gitIn(this.folder, ...args);
  }

  gitIn(folder: string, ...args: readonly string[]): string {
    const env = { PATH: process.env.PATH, HOME: this.home, GIT_CONFIG_NOSYSTEM: '1' };
    return execFileSync('git', ['-C', folder, ...IDENTITY, ...args], { env, encoding: 'utf8', stdio: 'pipe' }).trim();
  }

  write(files: Readonly<Record<string, string>>, folder = this.folder): void {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
  }

  commit(files: Readonly<Record<string, string>>, folder = this.folder): string {
    this.write(files, folder);
    this.gitIn(folder, 'add', '--all');
    this.gitIn(folder, 'commit', '--quiet', '-m', 'change');
    return this.gitIn(folder, 'rev-parse', 'HEAD');
  }

  remove(): void {
    rmSync(this.home, { recursive: true, force: true });
  }
}
