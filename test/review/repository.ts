import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A folder of files that a test made. Secrets are put together here, so that no file of this repository holds one. */
export class TestRepository {
  readonly folder = mkdtempSync(join(tmpdir(), 'ecliptic-review-'));

  constructor(files: Readonly<Record<string, string>> = {}) {
    this.write(files);
  }

  write(files: Readonly<Record<string, string>>): void {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.folder, path)), { recursive: true });
      writeFileSync(join(this.folder, path), text);
    }
  }

  git(...args: string[]): string {
    const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@localhost', '-c', 'commit.gpgSign=false'];
    const env = { PATH: process.env.PATH, HOME: this.folder, GIT_CONFIG_NOSYSTEM: '1' };
    return execFileSync('git', ['-C', this.folder, ...identity, ...args], { encoding: 'utf8', env });
  }

  commit(message = 'change'): void {
    this.git('add', '-A');
    this.git('commit', '-qm', message);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const random = (length: number) => 'aB3kQ7xZ1mN5pR2sT8vW4yU6cE0dF3gHjKl9QwErTyUiOpAsDfGhJkLzXcVbNm1a2'.slice(0, length);

export const SECRETS = {
  github: `ghp_${random(36)}`,
  aws: `AKIA${'Q3EGZ7WJ5KXN2PLM'}`,
  assigned: random(32),
  password: 'k9!vQz72mWp',
  key: ['-----BEGIN', 'RSA PRIVATE KEY-----'].join(' '),
  body: random(64),
} as const;

/** What is wrong in the fixture, as `rule file:line`, and beside it what only looks wrong. */
export const FIXTURE: Readonly<Record<string, string>> = {
  '.gitignore': 'ignored/\n*.log\n!kept.log\n',
  'ignored/key.js': `export const key = '${SECRETS.github}';\n`,
  'debug.log': `${SECRETS.github}\n`,
  'src/keys.js': [
    `export const token = '${SECRETS.github}';`, // 1: true
    "export const passwordField = 'current-password-2';", // a name
    "const api_key = process.env.API_KEY ?? 'your-api-key-here-123';", // a placeholder
    `const awsId = '${SECRETS.aws}';`, // 4: true
    "const integrity = 'sha512-aB3kQ7xZ1mN5pR2sT8vW4yU6cE0dF3gHjKl9QwErTyUi=='; // a hash",
    `const clientSecret = "${SECRETS.assigned}";`, // 6: true
    "const tokenUrl = 'https://login.host.invalid/v2/token4';",
    'const AKIAEXAMPLE = "AKIAIOSFODNN7EXAMPLE";', // the example of AWS
  ].join('\n'),
  'deploy/prod.env': `DB_PASSWORD=${SECRETS.assigned}\nDEBUG=1\nTOKEN_PATH=/run/secrets/token-1\n`, // 1: true
  'deploy/stack.yml': `env:\n  - API_KEY=${SECRETS.assigned}\nlogin:\n  client_secret: ${SECRETS.assigned}\n  token_address: ${SECRETS.assigned}\n`, // 2 and 4: true
  'deploy/Dockerfile': `FROM scratch\nENV API_KEY=${SECRETS.assigned}\n`, // 2: true
  'deploy/run.sh': `export API_KEY=${SECRETS.assigned}\nTOKEN=$(cat /run/secrets/token-1)\n`, // 1: true
  'deploy/id_rsa.txt': `${SECRETS.key}\n${SECRETS.body}\n${SECRETS.body}\n-----END RSA PRIVATE KEY-----\n`, // 1: true
  'src/pem.js': `export const isKey = (text) => text.startsWith('${SECRETS.key}');\n`, // no key follows
  'src/db.py': `URL = "postgres://app:${SECRETS.password}@db.prod.internal/app"\nLOCAL = "postgres://app:${SECRETS.password}@localhost/app"\n`, // 1: true
  'test/keys.test.js': `const password = "${SECRETS.assigned}";\nit.only('signs in', () => {});\nit('x', () => 'it.only(');\n`, // 2: focused
  'src/a.ts': "import { b } from './b.js';\nexport const a = () => b;\n", // 1: cycle
  'src/b.ts': "import { a } from './a.js';\nexport const b = () => a;\n",
  'src/types.ts': "import { user } from './user.js';\nexport interface Name { n: string }\nexport const x = user;\n",
  'src/user.ts':
    "import type { Name } from './types.js';\nimport { Name as Other } from './types.js';\nexport const user: Other & Name = { n: '' };\n",
  'src/lazy.js': "export const load = () => import('./eager.js');\n",
  'src/eager.js': "import { load } from './lazy.js';\nexport default load;\n",
  'src/gone.js':
    "import x from './no-such-file.js';\nimport y from './ignored-build.js';\n// import './also-gone.js'\nconst s = \"import z from './text.js'\";\nexport { x, y, s };\n", // 1: missing; 2 too
  'src/regex.js': "const q = /[\"'`]/;\nimport './keys.js';\nexport { q };\n",
  'py/__init__.py': '',
  'py/one.py': 'from . import two\n', // 1: cycle
  'py/two.py': 'from .one import thing\n',
  'py/three.py': 'def f():\n    from . import four\n',
  'py/four.py': 'from . import three\n',
  'src/merge.js': 'const a = 1;\n<<<<<<< HEAD\nconst b = 2;\n=======\nconst b = 3;\n>>>>>>> other\n', // 2: conflict
  'README.md': 'Title\n=======\n\n<<<<<<< this is how a conflict begins\n',
  'src/stop.js':
    'export function f() {\n  debugger;\n  // debugger;\n  // eslint-disable-next-line no-debugger\n  debugger;\n}\n', // 2: debugger
  'data/twice.json': '{\n  "a": 1,\n  "b": { "a": 2 },\n  "a": 3\n}\n', // 4: duplicate
  'data/broken.json': '{\n  "a": 1,\n  "b": \n}\n', // 4: syntax
  'data/trailing.json': '{\n  "a": [1, 2],\n  "b": 3,\n}\n', // 3: syntax
  'tsconfig.json': '{ "compilerOptions": {}, }\n', // its reader takes such commas
  '.vscode/settings.json': '{ "a": [1,], }\n', // so does this one
  '.github/workflows/ci.yml':
    'on: push\njobs:\n  test:\n    steps:\n      - run: npm test\n  other:\n    uses: ./.github/workflows/a.yml\n', // 4: schema
  'data/commented.json': '{ "a": 1, } // as many readers take it\n',
  'data/broken.yaml': 'a: [1, 2\nb: 3\n', // 2: syntax
  'data/template.yaml': 'a: {{ .Values.a }}\n  b: [\n',
  'data/schema.json':
    '{ "type": "object", "properties": { "port": { "type": "integer" } }, "additionalProperties": false }\n',
  'data/valid.json': '{ "$schema": "./schema.json", "port": 1 }\n'.replace('"$schema": "./schema.json", ', ''),
  'data/wrong.yaml': '# yaml-language-server: $schema=./schema.json\nport: eighty\n', // 2: schema
  'package.json': '{\n  "name": "fixture",\n  "version": "1.0",\n  "main": "lib/gone.js"\n}\n', // 3: schema, 4: missing file
  'junit.xml':
    '<testsuites><testsuite><testcase classname="sum" name="adds"/><testcase classname="sum" name="carries"><failure message="expected 2 &lt; 1">at test/sum.js:7:3</failure></testcase></testsuite></testsuites>\n',
  'test/sum.js': '\n\n\n\n\n\n1;\n',
};

export const EXPECTED: readonly string[] = [
  'secret/github-token src/keys.js:1',
  'secret/aws-access-key src/keys.js:4',
  'secret/assigned src/keys.js:6',
  'secret/assigned deploy/prod.env:1',
  'secret/assigned deploy/stack.yml:2',
  'secret/assigned deploy/stack.yml:4',
  'secret/assigned deploy/Dockerfile:2',
  'secret/assigned deploy/run.sh:1',
  'secret/private-key deploy/id_rsa.txt:1',
  'secret/password-in-url src/db.py:1',
  'test/focused test/keys.test.js:2',
  'test/failed test/sum.js:7',
  'import/cycle src/a.ts:1',
  'import/cycle py/one.py:1',
  'import/missing src/gone.js:1',
  'import/missing src/gone.js:2',
  'leftover/conflict src/merge.js:2',
  'leftover/debugger src/stop.js:2',
  'data/duplicate-key data/twice.json:4',
  'data/syntax data/broken.json:4',
  'data/syntax data/trailing.json:3',
  'data/schema .github/workflows/ci.yml:4',
  'data/syntax data/broken.yaml:2',
  'data/schema data/wrong.yaml:2',
  'data/schema package.json:3',
  'package/missing-file package.json:4',
];
