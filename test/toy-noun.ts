import { choice, flag, verb } from '../src/cli/command.js';

const spin = verb({
  summary: 'spin the toy',
  args: ['TURNS'],
  options: { way: choice(['left', 'right'], 'the direction'), fast: flag('faster') },
  examples: ['3 --way left'],
  async run({ words: [turns], values: { way = 'right', fast }, output }) {
    output.value({ turns: Number(turns), way, fast: fast === true }, () => `${turns} turns to the ${way}`);
  },
});

/** The one file of a new command; its one line is in program.test.ts. */
export const verbs = { spin };
