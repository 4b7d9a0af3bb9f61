/** An id of an invite is its sign-up link: whoever reads a report could accept it. */
import { readFileSync, statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

const FORMATS = ['text', 'json', 'markdown', 'html'];

/** What commands print, and every id that an invite ever had. */
class Watched {
  readonly story: Story;
  readonly ids = new Set<string>();
  readonly #shown: string[] = [];

  constructor(story: Story) {
    this.story = story;
  }

  async invites(): Promise<readonly { id: string; address: string }[]> {
    const open = (await this.story.list('invites')).map(({ id, target_email: address }) => ({
      id: String(id),
      address: String(address),
    }));
    for (const { id } of open) this.ids.add(id);
    return open;
  }

  async withdraw(address: string): Promise<string> {
    const id = (await this.invites()).find((each) => each.address === address)?.id ?? '';
    await this.story.call('DELETE', `${ORGANIZATION}invites/${id}/`);
    return id;
  }

  async look(code: number, ...args: string[]): Promise<string> {
    const { stdout, stderr } = await this.story.expectRun(code, ...args);
    this.#shown.push(`${args.join(' ')}\n${stdout}${stderr}`);
    await this.invites();
    return stdout;
  }

  expectNoLink(): void {
    for (const text of this.#shown) for (const id of this.ids) expect(text).not.toContain(id);
    expect(this.#shown.some((text) => text.includes('[secret:'))).toBe(true);
  }
}

async function watched(): Promise<{ watch: Watched; address: string }> {
  const watch = new Watched(await Story.start());
  const [first] = await watch.invites();
  return { watch, address: first?.address ?? '' };
}

describe('the id of an invite', () => {
  it('stands in no plan, whatever its form, before and after the invite was made again', async () => {
    const { watch, address } = await watched();
    await watch.withdraw(address);
    for (const format of FORMATS) await watch.look(2, 'restore', '--format', format);
    await watch.look(0, 'restore', '--kind', 'invites', '--apply', '--yes');
    for (const format of FORMATS) await watch.look(0, 'restore', '--format', format);
    await watch.look(0, 'restore', '--kind', 'members', '--json');
    watch.expectNoLink();
  });

  it('stands in no report of a restore, of one that failed, and of one that is undone', async () => {
    const { watch, address } = await watched();
    const lost = await watch.withdraw(address);
    const detail = `invite ${lost} is in the way`;
    const fault = { kind: 'answer', status: 400, body: { detail } } as const;
    watch.story.proxy.setRules([{ method: 'POST', fault }]);
    expect(await watch.look(3, 'restore', '--apply', '--yes')).toContain('is in the way');
    expect(await watch.look(3, 'restore', '--apply', '--yes', '--json')).toContain('is in the way');
    watch.story.proxy.setRules([]);
    await watch.look(0, 'restore', '--apply', '--yes', '--json');
    for (const args of [['1'], ['1', '--json'], ['3'], ['3', '--json']])
      await watch.look(0, 'restores', 'show', ...args);
    for (const format of FORMATS) await watch.look(2, 'undo', '3', '--format', format);
    await watch.look(0, 'undo', '3', '--apply', '--yes');
    watch.expectNoLink();
  });

  it('stands in a saved plan, which only its owner may read', async () => {
    const { watch, address } = await watched();
    const lost = await watch.withdraw(address);
    await watch.look(2, 'restore', '--out', 'plan.json');
    const path = watch.story.file('plan.json');
    expect(readFileSync(path, 'utf8')).toContain(lost);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    await watch.look(0, 'apply', 'plan.json', '--yes');
    await watch.look(6, 'apply', 'plan.json', '--yes');
    watch.expectNoLink();
  });

  it('is not part of the reason where it is not known which invite is meant', async () => {
    const { watch, address } = await watched();
    const id = await watch.withdraw(address);
    const body = { target_email: address, level: 1, send_email: false };
    await watch.story.call('POST', `${ORGANIZATION}invites/`, body);
    const counterpart = '0190b6f2-4c1e-4a57-9d3b-6e1f0a7c5dff';
    const json = (page: unknown): unknown => {
      const { results, ...rest } = page as { results: { target_email: string }[] };
      const again = results.filter(({ target_email: email }) => email === address);
      const rows = [...results, ...again.map((invite) => ({ ...invite, id: counterpart }))];
      return { ...rest, count: rows.length, results: rows };
    };
    watch.story.proxy.setRules([{ method: 'GET', path: /\/invites\//, fault: { kind: 'rewrite', json } }]);
    watch.ids.add(id).add(counterpart);
    for (const format of FORMATS)
      expect(await watch.look(3, 'restore', '--kind', 'invites', '--format', format)).toContain(
        'ambiguous: ',
      );
    watch.expectNoLink();
  });
});
