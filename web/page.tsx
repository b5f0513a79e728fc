import { render } from 'preact';
import { onKey } from './keys.js';
import { Shell } from './shell.js';
import { start } from './store.js';

const root = document.getElementById('page')!;
root.replaceChildren();
render(<Shell />, root);
document.addEventListener('keydown', onKey);
start();
