/** `tidemark fleet checkout` and `fleet checkin`: gives a cell to a person, for restore, undo, drill and so on. */
import { existsSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { readIdentities } from '../backup/encryption.ts';
import type { FleetConfig } from '../config/config.ts';
import { commandActor } from '../core/actor.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import { plural } from '../core/wording.ts';
import { CONFIG_FILE, MIRROR_FILE, checkIn, checkOut, discardCheckout } from '../fleet/checkout.ts';
import { Registry } from '../fleet/registry/registry.ts';
import { readConfig, readLoadedConfig } from '../wire.ts';
import { print, printJson, type CommandContext } from './context.ts';
import { requireFleet } from './fleet-work.ts';
import { commandLog } from './command-log.ts';

interface CheckoutOptions {
  readonly cell: string;
  readonly directory?: string;
  readonly wait?: boolean;
  readonly force?: boolean;
}

/** How long `--wait` waits until a worker has finished its work on the cell. */
const WAIT_MS = 15 * 60_000;

/** Opens the registry for `work`, with what checkout and checkin need. */
async function withFleet<T>(
  context: CommandContext,
  work: (fleet: FleetConfig, shared: SharedEffects) => Promise<T>,
): Promise<T> {
  const { fleet } = readLoadedConfig(context, context.options, 'unused');
  const { database, storage } = requireFleet(fleet);
  const registry = await Registry.open(database, { maxConnections: 2 });
  const { pid, signal } = context;
  try {
    const holder = commandActor().by;
    return await work(fleet, { registry, storage, clock: systemClock, pid, signal, holder });
  } finally {
    await registry.close();
  }
}

type SharedEffects = Pick<
  Parameters<typeof checkOut>[1],
  'registry' | 'storage' | 'clock' | 'pid' | 'signal' | 'holder'
>;

/** Exit 0 if the mirror is here. @throws TidemarkError as `checkOut` */
export async function fleetCheckout(
  context: CommandContext,
  { cell, directory: given, wait = false, force = false }: CheckoutOptions,
): Promise<ExitCode> {
  const directory = resolve(context.cwd, given ?? cell);
  return await withFleet(context, async (fleet, shared) => {
    const { config, mirror, run } = await checkOut(cell, {
      ...shared,
      directory,
      identities: fleet.identityFile === null ? [] : await readIdentities(fleet.identityFile),
      waitMs: wait ? WAIT_MS : 0,
      isForced: force,
    });
    if (context.options.json === true) {
      await printJson(context, { schema: 'tidemark.fleet-checkout/1', cell, run, config, mirror });
    } else {
      await print(
        context,
        [
          `${cell} is checked out as of run ${run}: no worker takes it, nor another cell with its key, until it is checked in.`,
          `  tidemark restore --config ${shellWord(config)}`,
          `  tidemark fleet checkin ${cell}${optionText('directory', given)}${optionText('config', context.options.config)}`,
          '',
        ].join('\n'),
      );
    }
    return EXIT.done;
  });
}

/** An option as given, for a command that is printed. */
function optionText(name: string, value: string | undefined): string {
  return value === undefined ? '' : ` --${name} ${shellWord(value)}`;
}

/** The mirror is in storage now, and an old copy might be mistaken for it. The user's own files stay. */
function removeCheckout(directory: string): void {
  for (const name of readdirSync(directory))
    if (name === CONFIG_FILE || name.startsWith(MIRROR_FILE))
      rmSync(join(directory, name), { recursive: true });
  if (readdirSync(directory).length === 0) rmdirSync(directory);
}

interface CheckinOptions {
  readonly cell: string;
  readonly directory?: string;
  readonly discard?: boolean;
  readonly force?: boolean;
}

/** Exit 0 if the workers have the cell again. @throws TidemarkError as `checkIn` */
export async function fleetCheckin(
  context: CommandContext,
  { cell, directory: given, discard = false, force = false }: CheckinOptions,
): Promise<ExitCode> {
  const directory = resolve(context.cwd, given ?? cell);
  if (force && !discard) {
    throw new TidemarkError('usage', '--force is for --discard only', {
      hint: 'what somebody else did can be dropped, not published for them',
    });
  }
  return await withFleet(context, async (fleet, shared) => {
    const { registry, holder } = shared;
    if (discard) {
      await discardCheckout(cell, { registry, holder, isForced: force });
      await print(context, `${cell} is checked in as it was; ${directory} is left to you\n`);
      return EXIT.done;
    }
    await registry.checkedOut(cell);
    const file = join(directory, CONFIG_FILE);
    if (!existsSync(file)) {
      throw new TidemarkError('usage', `${directory} has no checkout of ${cell}: ${CONFIG_FILE} is missing`, {
        hint: 'name the directory of the checkout with --directory, or give the cell back as it was with --discard',
      });
    }
    // Without the key, which may be only on the workers.
    const config = readConfig(context, { config: file, source: [cell] }, 'unused');
    const { run, newRuns } = await checkIn(cell, {
      ...shared,
      config,
      recipients: fleet.recipients,
      log: commandLog(context, 'warn'),
    });
    removeCheckout(directory);
    const what = newRuns === 0 ? 'without a new run' : `with ${plural(newRuns, 'new run')}`;
    await print(context, `${cell} is checked in as of run ${run}, ${what}\n`);
    return EXIT.done;
  });
}
