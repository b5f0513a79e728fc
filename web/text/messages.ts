export const SEARCH_TEXT = {
  thread: 'Read the conversation',
  back: 'Live messages',
  of: (text: string) => `Messages in the journal with “${text}”, newest first`,
  label: 'Messages found, newest first',
  none: 'No message of the journal has these words. The journal has no payloads of durable messages; search those in Mail, or in a terminal:',
  noneEarlier: 'There are no earlier ones.',
  noneCommand: 'ecliptic log --text WORDS',
} as const;
