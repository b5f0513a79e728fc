import { AnswerReader } from '../../../src/providers/model/answer-reader.js';
import { type FuzzTarget, must } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const CHUNKS: readonly unknown[] = [
  { choices: [{ delta: { content: 'hi' } }] },
  {
    choices: [
      {
        delta: {
          tool_calls: [
            { index: 0, id: 'a', function: { name: 'f', arguments: '{"a"' } },
            { function: { arguments: ':1}' } },
          ],
        },
      },
    ],
  },
  {
    choices: [
      {
        message: { content: 'x', tool_calls: [{ id: 'a', function: { name: 'f', arguments: { a: 1 } } }] },
        finish_reason: 'stop',
      },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 4 },
  },
  { error: { message: 'busy', code: 529 } },
];

/** Chunks of a model endpoint, one on each line: an answer has one id for each call, and its size is limited. */
export const target: FuzzTarget = {
  name: 'model-answer',
  about: 'answers of model endpoints',
  seeds: [...CHUNKS.map((_, index) => Buffer.of(index)), CHUNKS.map((chunk) => JSON.stringify(chunk)).join('\n')],
  run(input) {
    let text = '';
    const reader = new AnswerReader((more) => {
      text += more;
    });
    const raw = input[0] === 0x7b;
    const lines = raw
      ? input.toString('utf8').split('\n')
      : [JSON.stringify(jsonOf(input, CHUNKS)) ?? '', JSON.stringify(CHUNKS[1])];
    try {
      for (const line of lines) reader.take(line);
    } finally {
      const { answer } = reader;
      must(answer.text === text, () => 'what was told differs from the answer');
      must(
        new Set(answer.toolCalls.map(({ id }) => id)).size === answer.toolCalls.length,
        () => 'two calls have one id',
      );
      must(
        answer.toolCalls.every(
          ({ function: { name, arguments: given } }) => typeof name === 'string' && typeof given === 'string',
        ),
        () => 'a call without a name',
      );
    }
  },
};
