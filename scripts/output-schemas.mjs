import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript-api';
import { SchemaWriter } from './type-schema.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const CLI = join(root, 'src', 'cli');
/** These take values of every type, or lead to every command. */
const NOT_FOLLOWED = new Set(['output.ts', 'command.ts', 'nouns.ts', 'program.ts', 'help.ts', 'completion.ts']);

/** Writes schema/output.schema.json: what each command prints with `--json`, from the types of what it prints. */
export function writeOutputSchemas() {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const program = ts.createProgram(fileNames, { ...options, noEmit: true });
  const checker = program.getTypeChecker();
  const writer = new SchemaWriter(checker);
  const commands = {};
  for (const { path, node } of verbsOf(program, checker)) {
    const types = [...printedBy(node, checker)];
    if (types.length > 0) commands[path] = writer.union(types);
  }
  const failure = printedOnFailure(program, checker);
  const document = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    description:
      'What the commands of ecliptic print with --json: each line of standard output is one value that matches the schema of the command. `error` is the line on standard error when a command fails. Properties may be added.',
    error: writer.union([failure]),
    commands: Object.fromEntries(Object.entries(commands).sort()),
    $defs: writer.definitions,
  };
  writeFileSync(join(root, 'schema', 'output.schema.json'), byLines(document));
}

/** One line for each command and definition, so that a change of one shows as a change of one. */
function byLines({ commands, $defs, ...head }) {
  const lines = (entries) =>
    Object.entries(entries)
      .map(([name, schema]) => `${JSON.stringify(name)}:${JSON.stringify(schema)}`)
      .join(',\n');
  const start = JSON.stringify(head).slice(0, -1);
  return `${start},\n"commands":{\n${lines(commands)}\n},\n"$defs":{\n${lines($defs)}\n}}\n`;
}

/** Each command, and the node of its `verb({ … })`. */
function* verbsOf(program, checker) {
  for (const call of calls(program.getSourceFile(join(CLI, 'nouns.ts')))) {
    if (call.expression.getText() !== 'noun') continue;
    const [name, , , load] = call.arguments;
    const otherwise = call.arguments[4]?.text;
    const file = /import\('\.\/(.+)\.js'\)/.exec(load.getText())[1];
    const module = checker.getSymbolAtLocation(program.getSourceFile(join(CLI, `${file}.ts`)));
    const verbs = checker.getExportsOfModule(module).find((one) => one.name === 'verbs');
    const all = checker.getPropertiesOfType(checker.getTypeOfSymbol(verbs));
    for (const verb of all) {
      const isAlone = all.length === 1 && otherwise === verb.name;
      yield { path: isAlone ? name.text : `${name.text} ${verb.name}`, node: initialOf(verb, checker) };
    }
  }
}

/** The expression that a property has as its value, through shorthands and constants. */
function initialOf(symbol, checker) {
  const { valueDeclaration: found } = symbol;
  if (ts.isShorthandPropertyAssignment(found))
    return initialOf(checker.getShorthandAssignmentValueSymbol(found), checker);
  const { initializer } = found;
  if (initializer && ts.isIdentifier(initializer)) return initialOf(checker.getSymbolAtLocation(initializer), checker);
  return initializer ?? found;
}

/** The types of all values that the code at a node, and all code that it uses, prints as JSON. */
function printedBy(node, checker, seen = new Set(), types = new Set()) {
  const visit = (one) => {
    if (ts.isCallExpression(one)) {
      const printed = printedBy.valueIn(one, checker);
      if (printed) types.add(checker.getTypeAtLocation(printed));
    }
    if (ts.isIdentifier(one)) {
      for (const declaration of declarationsOf(one, checker)) {
        const { fileName } = declaration.getSourceFile();
        if (seen.has(declaration) || !fileName.startsWith(CLI) || NOT_FOLLOWED.has(basename(fileName))) continue;
        seen.add(declaration);
        if (isCode(declaration)) printedBy(declaration, checker, seen, types);
      }
    }
    ts.forEachChild(one, visit);
  };
  visit(node);
  return types;
}

/** What a call prints as JSON: `output.value(X)`, `output.rows(X)`, `output.line(JSON.stringify(X))`. */
printedBy.valueIn = ({ expression, arguments: args }, checker) => {
  if (!ts.isPropertyAccessExpression(expression)) return undefined;
  if (checker.getTypeAtLocation(expression.expression).symbol?.name !== 'Output') return undefined;
  const { text } = expression.name;
  if (text === 'value') return args[0];
  if (text === 'rows') return args[3] ?? args[0];
  return text === 'line' ? stringified(args[0]) : undefined;
};

function stringified(node) {
  if (!node || !ts.isCallExpression(node) || node.expression.getText() !== 'JSON.stringify') return undefined;
  // On several lines it is a document, such as a schema.
  return node.arguments.length === 1 ? node.arguments[0] : undefined;
}

function printedOnFailure(program, checker) {
  const source = program.getSourceFile(join(CLI, 'output.ts'));
  for (const call of calls(source)) {
    const value = stringified(call);
    if (value && ts.isObjectLiteralExpression(value)) return checker.getTypeAtLocation(value);
  }
  throw new Error('output.ts writes no failure');
}

function* calls(node) {
  if (ts.isCallExpression(node)) yield node;
  const children = [];
  ts.forEachChild(node, (child) => {
    children.push(child);
  });
  for (const child of children) yield* calls(child);
}

function declarationsOf(identifier, checker) {
  const symbol = checker.getSymbolAtLocation(identifier);
  if (!symbol) return [];
  const real = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  return real.declarations ?? [];
}

function isCode(node) {
  if (ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node) || ts.isMethodDeclaration(node)) return true;
  const { initializer } = node;
  return (
    ts.isVariableDeclaration(node) &&
    initializer !== undefined &&
    (ts.isArrowFunction(initializer) || ts.isFunctionExpression(initializer))
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeOutputSchemas();
