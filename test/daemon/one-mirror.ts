/** The cells of a daemon that has one mirror, of a view of it. */
import type { Config } from '../../src/config/config.ts';
import type { LoadedConfig } from '../../src/config/mirrors.ts';
import { CellStatus } from '../../src/daemon/cell-status.ts';
import { createCells, type DaemonCells } from '../../src/daemon/cells.ts';
import type { DaemonView } from '../../src/daemon/view.ts';

export function cellsOfOne(view: DaemonView): DaemonCells {
  const { startedAt } = view;
  let [config, loaded]: [Config | null, LoadedConfig | null] = [null, null];
  const status = new CellStatus({
    name: 'mirror',
    startedAt,
    view: () => view,
    openReader: () => view.mirror(),
    now: () => Date.now(),
  });
  return createCells({
    startedAt,
    config: () => {
      if (loaded !== null && config === view.config()) return loaded;
      config = view.config();
      return (loaded = { ...config, mirrorPath: config.mirror });
    },
    configProblem: () => view.configProblem(),
    problems: () => [],
    cells: () => [{ name: 'mirror', view, status, rateGroup: () => null }],
    slots: () => ({ count: 1, used: view.running().length }),
    hold: () => () => undefined,
    look: () => undefined,
  });
}
