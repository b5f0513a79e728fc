import { describe, expect, it } from 'vitest';
import { gitOperations } from './git-operations.js';

const found = (command: string) =>
  gitOperations(command).map(({ command: text, folder, paths }) => [text, folder, ...(paths ? [paths] : [])]);

describe('git operations in a shell command', () => {
  it.each<[string, unknown[]]>([
    ['git checkout main', [['git checkout main', '']]],
    ['git switch -c topic', [['git switch -c topic', '']]],
    [
      'npm test && git stash; git pull --rebase',
      [
        ['git stash', ''],
        ['git pull --rebase', ''],
      ],
    ],
    ['cd sub && git reset --hard HEAD~1', [['git reset --hard HEAD~1', 'sub']]],
    ['cd /r; cd sub; git merge x', [['git merge x', '/r/sub']]],
    ['git -C /other rebase main', [['git rebase main', '/other']]],
    ['git -c user.name=x --no-pager cherry-pick abc', [['git cherry-pick abc', '']]],
    ['GIT_EDITOR=true sudo -E /usr/bin/git rebase --continue', [['git rebase --continue', '']]],
    [`bash -lc "cd 'a b' && git stash pop"`, [['git stash pop', 'a b']]],
    ['echo $(git revert HEAD)', [['git revert HEAD', '']]],
    ['if git merge x; then echo ok; fi', [['git merge x', '']]],
    ['git checkout -- a.ts "b c.ts"', [['git checkout -- a.ts b c.ts', '', ['a.ts', 'b c.ts']]]],
    ['git restore --source HEAD~1 src/a.ts', [['git restore --source HEAD~1 src/a.ts', '', ['src/a.ts']]]],
    ['git reset -- a.ts', [['git reset -- a.ts', '', ['a.ts']]]],
    ['git stash push -m wip -- a.ts', [['git stash push -m wip -- a.ts', '', ['a.ts']]]],
    ['git clean -fd', [['git clean -fd', '', ['.']]]],
    ['git clean -fd tmp', [['git clean -fd tmp', '', ['tmp']]]],
    [
      'cat > notes <<EOF && git stash\ngit checkout x\nEOF\ngit merge y',
      [
        ['git stash', ''],
        ['git merge y', ''],
      ],
    ],
    ['grep x <<< "git stash"; git pull', [['git pull', '']]],
    ['git \\\n  checkout x # git reset', [['git checkout x', '']]],
    ['(cd /tmp && ls); git reset --hard', [['git reset --hard', '']]],
    ['cd /tmp && ls; cd - && git reset --hard', [['git reset --hard', '']]],
    ['cd /tmp | ls; git reset --hard', [['git reset --hard', '']]],
    ['cd /tmp || exit 1; git reset --hard', [['git reset --hard', '/tmp']]],
    [
      'if x; then cd /tmp; fi; git pull',
      [
        ['git pull', '/tmp'],
        ['git pull', ''],
      ],
    ],
    ['cd /tmp >log 2>&1 && git pull', [['git pull', '/tmp']]],
    ['OUT="$(git reset --hard)"', [['git reset --hard', '']]],
    ['echo "a `git reset --hard` b"', [['git reset --hard', '']]],
    [
      'cat <<EOF\n$(git stash)\nEOF\ngit pull',
      [
        ['git stash', ''],
        ['git pull', ''],
      ],
    ],
    ['echo $((1<<2))\ngit pull', [['git pull', '']]],
    ["git commit -m $'it\\'s'; git pull", [['git pull', '']]],
    ['git stash>log', [['git stash', '']]],
    ['git -C $(pwd) reset --hard', [['git reset --hard', '$']]],
    ['git --git-dir=/r/.git reset --hard', [['git reset --hard', '/r']]],
    ['timeout 60 git reset --hard', [['git reset --hard', '']]],
    ['nice -n 10 git pull', [['git pull', '']]],
    ['sudo -u x git pull', [['git pull', '']]],
    ['while git pull; do :; done', [['git pull', '']]],
    ['eval "git pull"', [['git pull', '']]],
    ['ls | xargs git checkout --', [['git checkout -- $', '', ['$']]]],
    ['git stash push -m list', [['git stash push -m list', '']]],
    ['git stash push -m -h', [['git stash push -m -h', '']]],
    ['git checkout-index -f -a', [['git checkout-index -f -a', '', [':/']]]],
    ['git rm -f src/a.ts', [['git rm -f src/a.ts', '', ['src/a.ts']]]],
    ['git restore -m src/a.ts', [['git restore -m src/a.ts', '', ['src/a.ts']]]],
    ['git restore --pathspec-from-file=l', [['git restore --pathspec-from-file=l', '', ['$']]]],
  ])('%s takes something away [RD.9]', (command, operations) => {
    expect(found(command)).toEqual(operations);
  });

  it.each(
    [
      'git status',
      'git stash list',
      'git log --oneline | grep checkout',
      'echo "git checkout main"',
      "git commit -m 'git reset --hard'",
      'grep -r "git stash" .',
      'git clean -n',
      'git rm src/a.ts',
      'git rm --cached src/a.ts',
      'echo "git stash" > git',
      'cat <<X\ngit stash\nX',
      'git rebase --help',
      'git diff merge',
      "cat > how.md <<'END'\ngit checkout main\n\tgit stash\nEND",
      'cat <<-A <<B\ngit checkout main\n\tA\ngit stash\nB\nls',
      `git commit -m "$(cat <<'EOF'\nmessage\ngit reset --hard\nEOF\n)"`,
      'legit checkout x',
      '# git checkout main',
      '',
      "git checkout 'unfinished",
      '"',
    ].filter((command) => !command.endsWith('unfinished')),
  )('%s takes nothing away [RD.9]', (command) => {
    expect(found(command)).toEqual([]);
  });

  it('are read without end from no text, however long or odd', () => {
    expect(gitOperations('git checkout x;'.repeat(100_000))).toHaveLength(20);
    expect(gitOperations('sudo git reset '.repeat(10_000))).toHaveLength(20);
    for (const odd of ['`', '$(', '"$(', '<<A\n$(', "$'", 'cd a;']) gitOperations(odd.repeat(30_000));
    expect(found("git checkout 'unfinished")).toEqual([['git checkout unfinished', '']]);
  });
});
