import { readFileSync } from 'node:fs';
import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, transform } from 'esbuild';
import { parseSync, Visitor } from 'oxc-parser';

const root = fileURLToPath(new URL('..', import.meta.url));

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Packages that nodes load: in the bundle they need no search through folders, and lose their unused parts. */
const BUNDLED = ['zod', 'pino', 'yjs', 'jsonc-parser', 'marked'];

/** Scripts with stored code cannot import without an experimental feature of Node, so that one file does it for them. */
const IMPORT = 'import.cjs';

const packages = {
  name: 'packages',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^./]/ }, ({ path, importer, kind }) => {
      const isSeparate = kind !== 'entry-point' && !importer.includes('node_modules') && !BUNDLED.includes(path);
      return isSeparate ? { path, external: true } : undefined;
    });
    // As the namespace of its module, `z` loses the parts of zod that are not used, such as its 50 languages.
    onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => ({
      contents: quickSpreads(
        readFileSync(path, 'utf8').replace(/^import \{ z \} from 'zod'/m, "import * as z from 'zod'"),
      ),
      loader: 'ts',
    }));
    // Yjs warns if a process loads it twice; documents of this copy never meet those of a user's copy.
    onLoad({ filter: /\/yjs\.mjs$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace("'__ $YJS$ __'", "'__ $YJS$ in ecliptic __'"),
      loader: 'js',
    }));
  },
};

/**
 * Writes `{ ...{}, ...some, more }` for `{ ...some, more }`. V8 of Node 20 copies the object of a leading spread with a hidden
 * class that has no place in its tree of classes. Each further member then costs a new class for this one object: one to
 * two microseconds, and all code that reads the object finds a class that it has never seen. With something before the
 * spread it takes a tenth of that.
 */
function quickSpreads(text) {
  if (!/\{\s*\.\.\./.test(text)) return text;
  const places = [];
  const visitor = new Visitor({
    ObjectExpression: ({ properties: [first, second] }) => {
      if (second && first.type === 'SpreadElement') places.push(first.start);
    },
  });
  visitor.visit(parseSync('module.ts', text).program);
  let quick = text;
  for (const place of places.sort((a, b) => b - a)) quick = `${quick.slice(0, place)}...{}, ${quick.slice(place)}`;
  return quick;
}

/**
 * Puts entries of `src/`, with all that they share, into one folder: each under the name of its file. The files are
 * CommonJS, because Node 20 can store compiled code of scripts only; an entry that exports has an ES module beside it.
 * Returns the files that went into them.
 */
export async function bundle(entries, outdir) {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: entries.map((entry) => `src/${entry}.ts`),
    entryNames: '[name]',
    outdir,
    bundle: true,
    splitting: true,
    mainFields: ['module', 'main'],
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    define: { PACKAGE_VERSION: JSON.stringify(version) },
    plugins: [packages],
    write: false,
    metafile: true,
    logLevel: 'warning',
  });
  const folder = resolve(root, outdir);
  await mkdir(folder, { recursive: true });
  await Promise.all(
    outputFiles.map(async ({ path, text }) => writeFile(path.replace(/\.js$/, '.cjs'), await script(text))),
  );
  await writeFile(join(folder, IMPORT), 'module.exports = (specifier) => import(specifier);\n');
  for (const [file, { entryPoint, exports }] of Object.entries(metafile.outputs)) {
    const name = basename(file, '.js');
    if (exports.length === 0 || !entries.some((entry) => entryPoint === `src/${entry}.ts`)) continue;
    const names = exports.join(', ');
    await writeFile(join(folder, `${name}.js`), `export { ${names} } from './${name}.cjs';\n`);
    // Never executed: Node finds in it which names an ES module can import.
    await appendFile(join(folder, `${name}.cjs`), `0 && (module.exports = { ${names} });\n`);
  }
  return Object.keys(metafile.inputs);
}

/** An ES module of esbuild as CommonJS. Other packages are imported as before, so that users share them. */
async function script(module) {
  const local = module
    .replace(/(from |import )"\.\/([\w-]+)\.js"/g, '$1"./$2.cjs"')
    .replace(/\bimport\("\.\/([\w-]+)\.js"\)/g, 'Promise.resolve().then(() => require("./$1.cjs"))');
  const { code } = await transform(local, {
    format: 'cjs',
    platform: 'node',
    target: 'node20.19',
    define: { 'import.meta.url': '__url' },
    logLevel: 'warning',
  });
  const body = withConstants(code).replace(/(?<![.\w$])import\(/g, '__import(');
  const before = [
    body.includes('__url') && "const __url = require('node:url').pathToFileURL(__filename).href;",
    body.includes('__import(') && `const __import = require('./${IMPORT}');`,
  ];
  // V8 keeps the text of every loaded file in memory. Names stay, and lines are short, for stack traces.
  const small = { minifyWhitespace: true, lineLimit: 120, legalComments: 'none', logLevel: 'warning' };
  return (await transform(`${before.filter(Boolean).join('')}${body}`, small)).code;
}

/**
 * Reads the exports of other files once. As written by esbuild, each use calls a getter, which costs a third of the
 * speed of a message. No file imports one that imports it, and no exported variable is assigned later.
 */
function withConstants(code) {
  let text = code;
  for (const [statement, name, file] of code.matchAll(/^var (import_\w+) = require\("(\.\/[\w-]+\.cjs)"\);$/gm)) {
    const members = new Set([...code.matchAll(new RegExp(`\\b${name}\\.(\\w+)`, 'g'))].map(([, member]) => member));
    const names = [...members].map((member) => `${member}: ${name}_${member}`);
    text = text
      .replace(new RegExp(`\\(0, ${name}\\.(\\w+)\\)`, 'g'), `${name}_$1`)
      .replace(new RegExp(`\\b${name}\\.(\\w+)`, 'g'), `${name}_$1`)
      .replace(statement, `const { ${names.join(', ')} } = require("${file}");`);
  }
  return text;
}
