/** Removals that somebody accepted: in the audit log, and on the page of the run that carried them out. */
import { expect, it, onTestFinished } from 'vitest';
import { commandActor } from '../../../src/core/actor.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { World } from '../http/world.ts';

it('names who accepted removals, in the log and with the run', async () => {
  const { via } = commandActor();
  const world = await World.create(
    { TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing' },
    (end) => onTestFinished(end),
  );
  await world.sync();
  const list = `/api/organizations/${KITTIWAKE_ID}/batch_exports/`;
  const ids = await world.ids(list);
  for (const id of ids) await world.send('DELETE', `${list}${id}/`, undefined);
  await world.sync();
  const { url } = await world.listen({}, (end) => onTestFinished(end));
  const text = async (path: string, accept = 'text/html'): Promise<string> =>
    await (await fetch(url + path, { headers: { accept } })).text();
  const said = `${ids.length} records, of at most 1,000: ${ids.length} batch exports`;
  const page = await text('/audit?action=accept_removals');
  expect(page).toContain('<strong>accept removals</strong>');
  expect(page).toContain('<a href="/runs/2">');
  expect(page.replaceAll('<wbr>', '')).toContain(said);
  expect(await text('/audit.csv')).toContain(`accept_removals,run 2,"${said}",default,`);
  expect(await text('/runs/2')).toContain(`accepted by ${via}: ${said}`);
  expect(await text('/runs/1')).not.toContain('accepted by');
  expect(JSON.parse(await text('/api/v1/runs/2', 'application/json'))).toMatchObject({
    accepted_removals: { entry: 1, by: via, run: 2, at_most: 1000, removed: ids.length },
  });
  expect(JSON.parse(await text('/api/v1/runs/1', 'application/json'))).toMatchObject({
    accepted_removals: null,
  });
});
