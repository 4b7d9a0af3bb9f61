/** Where the plan of a restore in the dashboard is, while it is made or applied. */
import { rmSync } from 'node:fs';
import { realMirrorPath } from '../mirror/real-path.ts';

/** Beside the mirror: where nothing else can be written, in a container, that can. One daemon runs on a mirror, and has one. */
export function planDirectory(mirrorPath: string): string {
  return `${realMirrorPath(mirrorPath)}-restore-plan`;
}

/** Removes what a daemon left that was killed. Only the daemon of the mirror may. */
export function removeLeftPlan(mirrorPath: string): void {
  rmSync(planDirectory(mirrorPath), { recursive: true, force: true });
}
