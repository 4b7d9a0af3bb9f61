/**
 * Counts what the structure of `src` costs a reader: files and lines, files that exist for one importer, exports that nobody
 * imports, import cycles, SQL outside of mirror/, files between a command and what it does. `npm run structure` prints it; `test/architecture.test.ts` holds parts of it.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

export interface SourceFile {
  /** Relative to `src`, e.g. `api/walk.ts`. */
  readonly path: string;
  readonly lines: number;
  /** Files of `src` that it imports, of types too, each once. */
  readonly imports: readonly string[];
  /** Names that it exports. */
  readonly exports: readonly string[];
  /** Of them, those marked `@internal`: exported for tests alone. */
  readonly internal: readonly string[];
  /** Names imported from elsewhere in `src`, as `path#name`; `path#*` for a whole module or a dynamic import. */
  readonly uses: readonly string[];
  /** String and template literals that are statements of SQL. */
  readonly sqlStatements: number;
}

const SQL =
  /^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|CREATE|DROP|ALTER|PRAGMA|ATTACH|DETACH|VACUUM|SAVEPOINT)\s+\S/;

/** Every TypeScript file below `root`, read by the compiler's own parser; what it imports is named relative to `base`. */
export function readSources(root: string, base = root): SourceFile[] {
  return globSync('**/*.ts', { cwd: root })
    .sort()
    .map((path) => readSource(root, path, base));
}

function readSource(root: string, path: string, base: string): SourceFile {
  const text = readFileSync(join(root, path), 'utf8');
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const imports = new Set<string>();
  const uses = new Set<string>();
  const exports: string[] = [];
  const internal: string[] = [];
  let sqlStatements = 0;

  const target = (specifier: ts.Expression): string | undefined =>
    ts.isStringLiteral(specifier) && specifier.text.startsWith('.')
      ? relative(base, join(root, dirname(path), specifier.text))
      : undefined;
  const add = (specifier: ts.Expression, names: readonly string[]): void => {
    const file = target(specifier);
    if (file === undefined) return;
    imports.add(file);
    for (const name of names) uses.add(`${file}#${name}`);
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      const named = node.importClause?.namedBindings;
      const names =
        named !== undefined && ts.isNamedImports(named)
          ? named.elements.map((each) => (each.propertyName ?? each.name).text)
          : ['*'];
      add(node.moduleSpecifier, names);
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined) {
      add(node.moduleSpecifier, ['*']);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [specifier] = node.arguments;
      if (specifier !== undefined) add(specifier, ['*']);
    } else if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) {
      const start = ts.isTemplateExpression(node) ? node.head.text : node.text;
      // A template's head may end where a value follows.
      const text = ts.isTemplateExpression(node) ? `${start}?` : start;
      if (SQL.test(text)) sqlStatements += 1;
    }
    if (ts.canHaveModifiers(node) && ts.getModifiers(node)?.some(isExport) === true) {
      exports.push(...namesOf(node));
      if (ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal'))
        internal.push(...namesOf(node));
    }
    ts.forEachChild(node, visit);
  };
  ts.forEachChild(source, visit);
  return {
    path,
    lines: text.split('\n').length - 1,
    imports: [...imports],
    exports,
    internal,
    uses: [...uses],
    sqlStatements,
  };
}

function isExport(modifier: ts.Modifier): boolean {
  return modifier.kind === ts.SyntaxKind.ExportKeyword;
}

function namesOf(node: ts.Node): string[] {
  if (ts.isVariableStatement(node))
    return node.declarationList.declarations.map((each) => each.name.getText());
  const { name } = node as ts.Node & { readonly name?: ts.Node };
  return name === undefined ? [] : [name.getText()];
}

/** Groups of files that import each other, directly or around a corner; largest first. */
export function importCycles(files: readonly SourceFile[]): string[][] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  // Tarjan's strongly connected components.
  const visit = (path: string): void => {
    const own = order.size;
    order.set(path, own);
    lowest.set(path, own);
    stack.push(path);
    for (const next of byPath.get(path)?.imports ?? []) {
      if (!byPath.has(next)) continue;
      if (!order.has(next)) visit(next);
      else if (!stack.includes(next)) continue;
      lowest.set(path, Math.min(lowest.get(path) ?? own, lowest.get(next) ?? own));
    }
    if (lowest.get(path) !== own) return;
    const members = stack.splice(stack.indexOf(path));
    if (members.length > 1) cycles.push(members.sort());
  };
  for (const { path } of files) if (!order.has(path)) visit(path);
  return cycles.sort((a, b) => b.length - a.length);
}

async function print(root: string): Promise<void> {
  const { callPaths } = await import('./call-paths.ts');
  const paths = await callPaths();
  const files = readSources(root);
  const importers = new Map<string, string[]>();
  for (const file of files)
    for (const each of file.imports) importers.set(each, [...(importers.get(each) ?? []), file.path]);
  const used = new Set(files.flatMap(({ uses }) => uses));
  const single = files.filter(({ path }) => importers.get(path)?.length === 1);
  const unused = files.flatMap(({ path, exports }) =>
    used.has(`${path}#*`) || /^(mirror\/schema\/|fleet\/registry\/schema\.ts$)/.test(path) // drizzle-kit reads the schemas
      ? []
      : exports.map((name) => `${path}#${name}`).filter((name) => !used.has(name)),
  );
  const internal = new Set(files.flatMap((file) => file.internal.map((name) => `${file.path}#${name}`)));
  const cycles = importCycles(files);
  const withSql = files.filter(({ sqlStatements }) => sqlStatements > 0);
  const outside = withSql.filter(({ path }) => !path.startsWith('mirror/'));
  const statements = (some: readonly SourceFile[]): number =>
    some.reduce((sum, { sqlStatements }) => sum + sqlStatements, 0);
  const rows: readonly (readonly [string, number | string])[] = [
    ['files', files.length],
    ['lines', files.reduce((sum, { lines }) => sum + lines, 0)],
    ['files with one importer', single.length],
    ['files under 40 lines with one importer', single.filter(({ lines }) => lines < 40).length],
    ['exports that no other file of src imports', unused.filter((name) => !internal.has(name)).length],
    ['… and those marked @internal, for tests', unused.filter((name) => internal.has(name)).length],
    ['import cycles (files in them)', `${cycles.length} (${cycles.flat().length})`],
    ['SQL statements as text (files)', `${statements(withSql)} (${withSql.length})`],
    ['… outside mirror/', `${statements(outside)} (${outside.length})`],
    ['files on the call stack, sync to INSERT', paths.sync.length],
    ['files on the call stack, restore --apply to its request', paths.restore.length],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  for (const [name, value] of rows) console.log(`${name.padEnd(width)}  ${value}`);
  if (process.argv.includes('--list')) {
    console.log('\nfiles under 40 lines with one importer:');
    for (const { path, lines } of single.filter((file) => file.lines < 40))
      console.log(`  ${path} (${lines}) ← ${importers.get(path)?.join(', ')}`);
    console.log('\nfiles with one importer:');
    for (const { path, lines } of single)
      console.log(`  ${path} (${lines}) ← ${importers.get(path)?.join(', ')}`);
    console.log('\nexports that no other file of src imports:');
    for (const name of unused) console.log(`  ${name}${internal.has(name) ? ' @internal' : ''}`);
    console.log('\non the way from sync to INSERT:');
    for (const path of paths.sync) console.log(`  ${path}`);
    console.log('\non the way from restore --apply to its request:');
    for (const path of paths.restore) console.log(`  ${path}`);
    console.log('\nimport cycles:');
    for (const cycle of cycles) console.log(`  ${cycle.join(' ')}`);
    console.log('\nSQL outside mirror/:');
    for (const { path, sqlStatements } of outside) console.log(`  ${path} ${sqlStatements}`);
  }
}

if (import.meta.main) await print(join(import.meta.dirname, '../../src'));
