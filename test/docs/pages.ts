/** The pages, and what each needs to be tried. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

export interface Page {
  /** Below the repository: `docs/sql.md`. */
  readonly path: string;
  readonly text: string;
  /** A sandbox stands for the service that it speaks of. */
  readonly hasService: boolean;
  /** Where the mirror is that its SQL is asked of; the demo's is put there where it begins with `data/demo`. */
  readonly mirror: string;
  /** Written from the command table: its examples are checked by their names alone. */
  readonly isReference: boolean;
  /** How many of its blocks nothing runs here, each with its reason in the page. */
  readonly notRun: number;
}

type Needs = Partial<Pick<Page, 'hasService' | 'isReference' | 'mirror' | 'notRun'>>;

const NEEDS: Readonly<Record<string, Needs>> = {
  'README.md': { hasService: true },
  'docs/adding-a-kind.md': { notRun: 2 },
  'docs/cli.md': { isReference: true },
  'docs/container.md': { notRun: 7 },
  'docs/backup.md': { notRun: 5 },
  'docs/fleet.md': { notRun: 14 },
  'docs/git.md': { notRun: 3 },
  'docs/litestream.md': { notRun: 3 },
  'docs/getting-started.md': { notRun: 1 },
  'docs/notice-cases.md': { notRun: 1 },
  'docs/replica.md': { notRun: 1 },
  'docs/sandbox.md': { notRun: 1 },
  'docs/troubleshooting.md': { notRun: 2 },
  'docs/sql.md': { mirror: 'data/demo/mirror.db', notRun: 10 },
};

/** README and every page of docs. */
export function pages(): Page[] {
  const names = readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .sort();
  return ['README.md', ...names.map((name) => `docs/${name}`)].map((path) => ({
    path,
    text: readFileSync(root + path, 'utf8'),
    hasService: false,
    isReference: false,
    mirror: 'data/mirror.db',
    notRun: 0,
    ...NEEDS[path],
  }));
}
