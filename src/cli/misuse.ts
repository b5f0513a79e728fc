import type { EclipticError } from '../runtime/errors.js';
import type { Command } from './command.js';
import { usage } from './output.js';

interface Word {
  /** As the usage text has it: `ID` stands for any word, `show` or `show|stop` for itself. */
  readonly name: string;
  readonly optional: boolean;
}

/** Names the word that is missing, unknown or one too many, and says how the command goes. */
export function misuse({ usage: how }: Pick<Command, 'usage'>, words: readonly string[]): EclipticError {
  return usage(`${problem(how, words)}; usage: ecliptic ${how}`);
}

function problem(how: string, words: readonly string[]): string {
  const forms = formsOf(how);
  // A form that begins with the verb that was given is meant rather than one that takes any word.
  const fitting = forms.filter((form) => words.every((word, at) => fits(form[at], word)));
  const form = fitting.find(([first]) => first && isLiteral(first)) ?? fitting[0];
  const verbs = forms.flatMap(([first]) => (first && isLiteral(first) ? first.name.split('|') : []));
  if (!form) {
    if (verbs.length > 0 && words[0] !== undefined) return `"${words[0]}" is not one of ${verbs.join(', ')}`;
    return 'these words do not go together';
  }
  const missing = form[words.length];
  if (missing && (words.length > 0 || !missing.optional)) return `${missing.name} is missing`;
  const extra = words[form.length];
  return extra === undefined ? 'these words do not go together' : `"${extra}" is one word too many`;
}

/** The words of each form of a command, without its name and its options. */
function formsOf(how: string): Word[][] {
  return how.split(' | ').map((form) => {
    const words = form.replace(/\[--[^\]]*\]/g, '').replace(/--[\w-]+( [A-Z]\S*| \S+\|\S+)?/g, '');
    let depth = 0;
    return words
      .split(/\s+/)
      .filter((word) => word !== '')
      .slice(1)
      .map((word) => {
        if (word.startsWith('[')) depth++;
        const optional = depth > 0;
        if (word.endsWith(']')) depth--;
        return { name: word.replace(/[[\]"]|\.\.\.|…|\|$/g, ''), optional };
      })
      .filter(({ name }) => name !== '');
  });
}

function fits(expected: Word | undefined, word: string): boolean {
  return expected === undefined || !isLiteral(expected) || expected.name.split('|').includes(word);
}

function isLiteral({ name }: Word): boolean {
  return /^[a-z]/.test(name);
}
