import { describe, expect, it } from 'vitest';
import { answersFrom, fill } from './form.js';

const FORM = {
  method: 'elicitation/create' as const,
  params: {
    message: 'How shall it look?',
    requestedSchema: {
      type: 'object' as const,
      properties: {
        color: { type: 'string' as const, title: 'Color', enum: ['red', 'green'] },
        size: { type: 'integer' as const, minimum: 1, maximum: 9, default: 3 },
        round: { type: 'boolean' as const },
      },
      required: ['color'],
    },
  },
};

/** A person who types these lines. */
function person(...lines: string[]) {
  const told: string[] = [];
  const ask = async (question: string) => {
    told.push(question);
    return lines.shift();
  };
  return { told, answer: () => fill(FORM, ask, (line) => void told.push(line)) };
}

describe('a question of a tool at the terminal', () => {
  it('is a form: choices by number or name, defaults for empty lines, types from the schema [MT.8]', async () => {
    const { told, answer } = person('', '2', '', 'yes');
    expect(await answer()).toEqual({ action: 'accept', content: { color: 'green', size: 3, round: true } });
    expect(told).toEqual([
      'The tool asks: How shall it look?',
      'Answer? [Y]es, [d]ecline, [c]ancel: ',
      '  Color (1 red, 2 green): ',
      '  size (integer; default 3): ',
      '  round (yes or no; optional): ',
    ]);
  });

  it('is asked again while the answer does not fit [MT.8]', async () => {
    const { told, answer } = person('y', 'blue', '12', '', 'red', '9', 'no');
    expect(await answer()).toEqual({ action: 'accept', content: { color: 'red', size: 9, round: false } });
    expect(told.filter((line) => line.startsWith('This does not fit'))).toHaveLength(1);
  });

  it('can be declined and cancelled, also by the end of the input [MT.8]', async () => {
    expect(await person('d').answer()).toEqual({ action: 'decline' });
    expect(await person('c').answer()).toEqual({ action: 'cancel' });
    expect(await person('y', 'red').answer()).toEqual({ action: 'cancel' });
  });

  it('is answered by an option, which must fit [MT.8]', async () => {
    expect(await answersFrom('decline')(FORM)).toEqual({ action: 'decline' });
    const answer = answersFrom('{"color":"red","other":1}');
    expect(await answer(FORM)).toEqual({ action: 'accept', content: { color: 'red' } });
    await expect(answersFrom('{"size":1}')(FORM)).rejects.toMatchObject({ code: 'USAGE' });
    expect(() => answersFrom('[1]')).toThrow('must be an object');
  });
});
