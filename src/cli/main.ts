import { TABLE } from './nouns.js';
import { runProgram } from './program.js';

// A reader that closes the pipe early is no failure of this program.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
void runProgram(process.argv.slice(2), TABLE).then((code) => {
  process.exitCode = code;
});
