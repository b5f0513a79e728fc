import { loadProgram } from './code-cache.js';

loadProgram('main.cjs', process.argv[2], process.env);
