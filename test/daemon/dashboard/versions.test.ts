/** Two versions of a record side by side, and the plan that restores one. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { alignedLines } from '../../../src/daemon/dashboard/versions.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { DAY_MS, World } from '../http/world.ts';

const PATH = `/api/organizations/${KITTIWAKE_ID}/`;

const ends: (() => Promise<void>)[] = [];
let world: World;
let url: string;
/** The page of a role that run 1 sees, run 2 sees renamed and run 3 sees gone. */
let role: string;
let number: string;

/** @returns the id of that role */
async function removedRole(world: World): Promise<string> {
  await world.send('POST', `${PATH}roles/`, { name: 'Before the change' });
  await world.sync();
  const [made] = [...world.mirror().records.read({ kinds: ['roles'] })].filter(({ body }) =>
    body.includes('Before the change'),
  );
  world.clock.at += DAY_MS;
  await world.send('PATCH', `${PATH}roles/${made?.id ?? ''}/`, { name: 'After the change' });
  await world.send('PATCH', PATH, { enforce_2fa: false });
  await world.sync();
  world.clock.at += DAY_MS;
  await world.send('DELETE', `${PATH}roles/${made?.id ?? ''}/`, undefined);
  await world.sync();
  return made?.id ?? '';
}

const EXCLUDED = { TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing' };

beforeAll(async () => {
  const later = (end: () => Promise<void>): void => void ends.push(end);
  world = await World.create(EXCLUDED, later);
  role = `/records/roles/${await removedRole(world)}`;
  ({ url } = await world.listen({}, later));
  number = numberOf(await page(role));
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

async function page(path: string, at = url): Promise<string> {
  return (await fetch(at + path, { headers: { accept: 'text/html' } })).text();
}

function numberOf(html: string): string {
  return /name="record" value="(\d+)"/.exec(html)?.[1] ?? '';
}

/** Rows of the comparison, each as its class and the texts of its cells. */
function rows(html: string): string[][] {
  const [, body = ''] = /<table class="versions".*?<tbody[^>]*>(.*?)<\/tbody>/s.exec(html) ?? [];
  return [...body.matchAll(/<tr role="row" class="([\w-]+)">(.*?)<\/tr>/gs)].map(
    ([, style = '', cells = '']) => [
      style,
      ...[...cells.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, text = '']) =>
        text.replace(/<span class="side">.*?<\/span>|<[^>]*>/g, '').trim(),
      ),
    ],
  );
}

describe('versions side by side', () => {
  it('are chosen on the page of the record, and compared line by line', async () => {
    const html = await page(role);
    expect(html).toContain('<option value="run:3" selected>run 3, ');
    expect(html).toContain('<option value="run:2" selected>run 2, ');
    expect(html).not.toContain('<table class="versions"');
    const compared = await page(`${role}?record=${number}&left=run:1&right=run:2`);
    expect(rows(compared).filter(([style]) => style === 'differs')).toContainEqual([
      'differs',
      expect.stringContaining('&quot;name&quot;: &quot;Before the change&quot;'),
      expect.stringContaining('&quot;name&quot;: &quot;After the change&quot;'),
    ]);
    expect(compared).toContain('1 field changed');
  });

  it('of a record that was not there on one side have nothing on it', async () => {
    const removed = await page(`${role}?left=run:2&right=latest`);
    expect(removed).toContain('>removed</span>');
    expect(rows(removed).every(([, , right]) => right === '')).toBe(true);
  });

  it('fold equal lines, and show all of them on request', async () => {
    const path = `/records/organizations/${KITTIWAKE_ID}?left=run:1&right=run:2`;
    const html = await page(path);
    expect(html).toContain('1 field changed, secrets masked:');
    expect(html).toContain('In versions of the past: fields that change on their own are left out (');
    const folded = rows(html);
    expect(folded.filter(([style]) => style === 'differs')).toHaveLength(1);
    expect(folded.some(([style]) => style === 'gap-row')).toBe(true);
    const all = rows(await page(`${path}&lines=all`));
    expect(all.some(([style]) => style === 'gap-row')).toBe(false);
    expect(all.length).toBeGreaterThan(folded.length);
    expect(all.filter(([style]) => style === 'differs')).toEqual(
      folded.filter(([style]) => style === 'differs'),
    );
  });

  it.each(['left=run:99', 'right=nonsense', 'left=live', 'left=%3Cscript%3E'])(
    '%s is refused beside the form',
    async (query) => {
      const html = await page(`${role}?${query}`);
      expect(html).toContain('These versions cannot be compared:');
      expect(html).toContain('<h1>');
      expect(html).not.toContain('<script>e');
    },
  );

  it('show no secret', async () => {
    const [project] = [...world.mirror().records.read({ kinds: ['projects'] })];
    const html = await page(`/records/projects/${project?.id ?? ''}?left=run:1&right=run:2&lines=all`);
    expect(html).toContain('[secret]');
    const tokens = [...(project?.body.matchAll(/"\w*(?:token|secret)\w*": ?"([^"]+)"/g) ?? [])];
    expect(tokens.length).toBeGreaterThan(0);
    for (const [, token = ''] of tokens) expect(html).not.toContain(token);
  });

  it('lines are aligned so that each side reads as it was', () => {
    const lines = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 12 });
    fc.assert(
      fc.property(lines, lines, (left, right) => {
        const found = alignedLines(left, right);
        expect(found.flatMap((row) => row.left ?? [])).toEqual(left);
        expect(found.flatMap((row) => row.right ?? [])).toEqual(right);
        for (const row of found) if (row.isEqual) expect(row.left).toBe(row.right);
      }),
    );
    expect(alignedLines(['a', 'b', 'c'], ['a', 'x', 'c']).map(({ isEqual }) => isEqual)).toEqual([
      true,
      false,
      true,
    ]);
  });
});

describe('the plan that restores a version', () => {
  const plan = (query: string): Promise<string> => page(`/restore?kind=roles&of=${number}&version=${query}`);

  it('is reached from the history', async () => {
    const html = await page(role);
    expect(html).toContain(`/restore?version=run%3A1&amp;kind=roles&amp;of=${number}`);
    expect(html).toContain('Plan: restore this version');
  });

  it('of a removed record creates it again', async () => {
    const writable = await World.create({ ...EXCLUDED, TIDEMARK_PROFILE: 'svc-writable' });
    const id = await removedRole(writable);
    const { url: at } = await writable.listen();
    const of = numberOf(await page(`/records/roles/${id}`, at));
    const html = await page(`/restore?kind=roles&of=${of}&version=run:2`, at);
    expect(html).toMatch(/create\s+role/);
    expect(html.replace(/<[^>]*>/g, '')).toContain(
      `tidemark restore run:2 --source default --kind roles --id ${id} --apply`,
    );
    expect(html).not.toContain('--prune');
  });

  it('that can send nothing has no command that sends it', async () => {
    const html = await plan('run:2');
    expect(html).toContain('The record was removed.');
    expect(html).not.toContain('Apply it');
  });

  it('says what would be sent, and of a blocked step why', async () => {
    const blocked = (await plan('run:2')).replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
    expect(blocked).toMatch(
      /What it would do From the newest run of the mirror: 1 blocked; 0 unchanged\. blocked role .*: the API does not document which fields are writable/,
    );
    const organization = await page(`/records/organizations/${KITTIWAKE_ID}`);
    const [, path = ''] = /href="(\/restore\?version=run%3A1[^"]*)"/.exec(organization) ?? [];
    const sent = (await page(path.replaceAll('&amp;', '&'))).replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
    expect(sent).toMatch(
      /What it would do .*: 1 to update; 0 unchanged\. .* 1\. ~ update organization .* PATCH \/.* request body .*Before: .*After: /,
    );
  });

  it('of a changed record says what is set back', async () => {
    const organization = await page(`/records/organizations/${KITTIWAKE_ID}`);
    const [, path = ''] = /href="(\/restore\?version=run%3A1[^"]*)"/.exec(organization) ?? [];
    const html = await page(path.replaceAll('&amp;', '&'));
    expect(html).toContain('enforce_2fa');
    expect(html.replace(/<[^>]*>/g, '')).toContain(
      `tidemark restore run:1 --source default --kind organizations --id ${KITTIWAKE_ID} --apply`,
    );
    expect(await page(path.replaceAll('&amp;', '&').replace('run%3A1', 'latest'))).toContain(
      'Nothing to restore:',
    );
  });

  it('of a state that there is not, or of no record, says so', async () => {
    expect(await plan('run:77')).toContain('There is no run 77');
    expect(await page('/restore?kind=roles&of=999999&version=run:1')).toContain('Nothing is selected.');
    expect(await plan('latest')).toContain('Nothing to restore:');
  });
});
