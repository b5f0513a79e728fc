import type { CollectionName } from '../../src/collections/entry.js';

export const COLLECTIONS_TEXT = {
  label: 'Collections',
  names: { memory: 'Memory', rules: 'House rules', taste: 'Taste' } satisfies Record<CollectionName, string>,
  about: {
    memory: 'What agents and people have noted. Workers get the entries that fit their task.',
    rules: 'How the house works. Workers get the rules that you added as rules, and those of others as notes.',
    taste: 'What the people of the house like. Workers get the entries that fit their task.',
  } satisfies Record<CollectionName, string>,
  entries: 'Entries',
  none: 'There are no entries yet. Add one below, or in a terminal:',
  noneCommand: (collection: CollectionName) => `ecliptic ${collection} add 'orders is deployed with make ship'`,
  noMatch: 'No entry fits.',
  search: 'Search',
  searchHint: 'words of the entry',
  tag: 'Tag',
  clearTag: (tag: string) => `Show entries with other tags than ${tag} too`,
  columns: ['Entry', 'Tags', 'Author', 'When', 'Action'],
  you: 'you',
  signed: (origin: string) => `signed by ${origin}`,
  sandbox: (name: string) => `sandbox ${name}`,
  latest: (shown: number) => `the newest ${shown}`,
  best: 'the best first',
  forget: 'Forget',
  forgetQuestion: 'Remove it on every device?',
  forgotten: 'The entry is removed.',
  add: { memory: 'Add a note', rules: 'Add a rule', taste: 'Add what you like' } satisfies Record<
    CollectionName,
    string
  >,
  text: 'Text',
  tags: 'Tags',
  tagsHint: 'words to find it by, separated by spaces',
  save: 'Add',
  added: (text: string) => `Added: ${text}`,
} as const;
