import { type Invocation, type Table, type Verb, verb } from './command.js';
import { GLOBAL_OPTIONS } from './lookup.js';

/** A command line as far as it leads to a verb: `agent list`, or a short word such as `send`. */
interface Path {
  readonly words: readonly string[];
  readonly verb: Verb;
}

interface Commands {
  /** The words that may come first, with what they do. */
  readonly first: readonly (readonly [word: string, help: string])[];
  /** First words that a verb may follow. */
  readonly verbs: readonly (readonly [word: string, verbs: readonly (readonly [verb: string, help: string])[]])[];
  readonly paths: readonly Path[];
}

function shell(name: string, hint: string, script: (commands: Commands) => string) {
  return verb({
    summary: `print the completion script for ${name}`,
    examples: [hint],
    async run({ table, output }: Pick<Invocation, 'table' | 'output'>) {
      output.line(script(await commandsOf(table)));
    },
  });
}

async function commandsOf({ nouns, words }: Table): Promise<Commands> {
  const loaded = await Promise.all(nouns.map(async (noun) => ({ ...noun, all: (await noun.load()).verbs })));
  const first: [string, string][] = loaded.map(({ name, summary }) => [name, summary]);
  const verbs: [string, [string, string][]][] = [];
  const paths: Path[] = [];
  const open = (word: string, all: Readonly<Record<string, Verb>>, otherwise: string | undefined) => {
    verbs.push([word, Object.entries(all).map(([name, { summary }]) => [name, summary])]);
    paths.push(...Object.entries(all).map(([name, one]) => ({ words: [word, name], verb: one })));
    if (otherwise !== undefined) paths.push({ words: [word], verb: all[otherwise]! });
  };
  for (const { name, all, otherwise } of loaded) open(name, all, otherwise);
  for (const [word, meaning] of Object.entries(words)) {
    const [target, ...rest] = meaning.split(' ');
    const { all } = loaded.find(({ name }) => name === target)!;
    const last = rest.at(-1)!;
    const means = last.replace(/[[\]]/g, '');
    first.push([word, all[means]!.summary]);
    if (last === means) paths.push({ words: [word], verb: all[means]! });
    else open(word, all, means);
  }
  return { first: [...first, ['help', 'help on a command']], verbs, paths };
}

function optionsOf({ verb: { options } }: Path) {
  return Object.entries({ ...options, ...GLOBAL_OPTIONS }).filter(([, option]) => !option.hidden);
}

function bash({ first, verbs, paths }: Commands): string {
  const names = first.map(([word]) => word).join(' ');
  return `# ecliptic completion
_ecliptic() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]}
  local first=\${COMP_WORDS[1]} second=\${COMP_WORDS[2]} verbs= options= path=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ] || { [ "$first" = help ] && [ "$COMP_CWORD" -eq 2 ]; }; then
    COMPREPLY=($(compgen -W ${quoted(names)} -- "$cur"))
    return
  fi
  case $first in
${verbs.map(([word, all]) => `    ${word}) verbs=${quoted(all.map(([name]) => name).join(' '))} ;;`).join('\n')}
  esac
  path=$first
  case " $verbs " in *" $second "*) [ -n "$second" ] && path="$first $second" ;; esac
  case "$path $prev" in
${paths.flatMap(bashChoices).join('\n')}
  esac
  if [[ $cur == -* ]]; then
    case $path in
${paths.map((path) => `      ${quoted(path.words.join(' '))}) options=${quoted(bashOptions(path))} ;;`).join('\n')}
    esac
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [ "$COMP_CWORD" -eq 2 ] && [ -n "$verbs" ]; then
    COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
  fi
}
complete -o default -F _ecliptic ecliptic`;
}

function bashOptions(path: Path): string {
  return optionsOf(path)
    .map(([name]) => `--${name}`)
    .join(' ');
}

function bashChoices(path: Path): string[] {
  return optionsOf(path).flatMap(([name, { choices }]) => {
    if (!choices) return [];
    const reply = `COMPREPLY=($(compgen -W ${quoted(choices.join(' '))} -- "$cur")); return`;
    return [`    ${quoted([...path.words, `--${name}`].join(' '))}) ${reply} ;;`];
  });
}

/** Bash's script in zsh's bash mode. */
function zsh(commands: Commands): string {
  return `autoload -U +X compinit bashcompinit && compinit && bashcompinit\n${bash(commands)}`;
}

function fish({ first, verbs, paths }: Commands): string {
  const open = new Map(verbs.map(([word, all]) => [word, all.map(([name]) => name).join(' ')]));
  const when = ({ words: [word, name] }: Path) => {
    const seen = `__fish_seen_subcommand_from ${word}`;
    if (name !== undefined) return `${seen}; and __fish_seen_subcommand_from ${name}`;
    return open.has(word!) ? `${seen}; and not __fish_seen_subcommand_from ${open.get(word!)}` : seen;
  };
  return [
    '# ecliptic completion for fish; load it with: ecliptic completion fish | source',
    ...first.map(
      ([word, help]) => `complete -c ecliptic -n __fish_use_subcommand -f -a ${word} -d ${fishQuoted(help)}`,
    ),
    ...verbs.flatMap(([word, all]) => {
      const none = `__fish_seen_subcommand_from ${word}; and not __fish_seen_subcommand_from ${open.get(word)}`;
      return all.map(([name, help]) => `complete -c ecliptic -n '${none}' -f -a ${name} -d ${fishQuoted(help)}`);
    }),
    ...paths.flatMap((path) =>
      optionsOf(path).map(([name, { value, help, choices }]) => {
        const taken = value === undefined ? '' : choices ? ` -x -a ${fishQuoted(choices.join(' '))}` : ' -r';
        return `complete -c ecliptic -n '${when(path)}' -l ${name}${taken} -d ${fishQuoted(help)}`;
      }),
    ),
  ].join('\n');
}

/** As one word of bash. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

export const verbs = {
  bash: shell('bash', '>> ~/.bashrc', bash),
  zsh: shell('zsh', '>> ~/.zshrc', zsh),
  fish: shell('fish', '> ~/.config/fish/completions/ecliptic.fish', fish),
};
