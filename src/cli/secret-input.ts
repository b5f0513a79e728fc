import { text } from 'node:stream/consumers';
import { EclipticError } from '../runtime/errors.js';
import { usage } from './output.js';

/** Keys as a terminal sends them: return; control-C and control-D; backspace. */
const ENTER = '\r\n';
const CANCEL = '\u0003\u0004';
const ERASE = '\u0008\u007f';

/** A secret from standard input: everything that is piped in but the last line break, or what is typed, unseen. */
export async function readSecret(prompt: string): Promise<string> {
  const { stdin } = process;
  const value = stdin.isTTY ? await typed(prompt) : (await text(stdin)).replace(/\r?\n$/, '');
  if (value === '') throw usage('no value came on standard input');
  return value;
}

function typed(prompt: string): Promise<string> {
  const { stdin, stderr } = process;
  // Before anybody is asked: what is typed at once must not be seen either.
  stdin.setRawMode(true);
  stderr.write(prompt);
  stdin.setEncoding('utf8');
  return new Promise((resolve, reject) => {
    let value = '';
    const finish = (settle: () => void) => {
      stdin.off('data', take);
      stdin.setRawMode(false);
      stdin.pause();
      stderr.write('\n');
      settle();
    };
    const take = (keys: string) => {
      for (const key of keys) {
        if (ENTER.includes(key)) return finish(() => resolve(value));
        if (CANCEL.includes(key)) return finish(() => reject(new EclipticError('CANCELLED', 'nothing was stored')));
        value = ERASE.includes(key) ? [...value].slice(0, -1).join('') : value + key;
      }
    };
    stdin.on('data', take);
    stdin.resume();
  });
}
