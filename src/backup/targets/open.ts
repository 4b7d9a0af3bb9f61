/** Opens targets of all kinds. */
import type { TargetConfig } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import { directoryTarget } from './directory.ts';
import type { BackupTarget } from './target.ts';

/** Opens a target; nothing is read or written yet. */
export async function openTarget(config: TargetConfig, clock: Clock): Promise<BackupTarget> {
  switch (config.type) {
    case 'directory':
      return directoryTarget(config.path, config.within);
    case 's3':
      // The S3 client is loaded only if such a target is configured.
      return new (await import('./s3.ts')).S3Target(config, clock);
  }
}
