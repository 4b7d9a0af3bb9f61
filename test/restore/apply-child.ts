/**
 * Applies a plan until it is killed; sends a message for each step that begins and ends.
 * Arguments: the mirror's path, the service's address, the key. The plan comes as the first message.
 */
import { createWriteClient } from '../../src/api/write-client.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { applyPlan } from '../../src/restore/apply/apply.ts';
import type { Plan } from '../../src/restore/plan/plan.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';
import { SOURCE } from './apply-source.ts';

const [path = '', url = '', key = ''] = process.argv.slice(2);
const say = (): void => void process.send?.('step');

process.once('message', (plan: Plan) => {
  const mirror = openMirror(path, { mode: 'write', command: 'kill test', clock: systemClock });
  const client = createWriteClient({
    baseUrl: new URL(url),
    apiKey: new Secret(key),
    rate: { perMinute: 0, perHour: 0, concurrency: 2 },
    retry: { attempts: 2, maxWaitSeconds: 5 },
    userAgent: 'test',
    clock: systemClock,
    random: () => 0.5,
    log: silentLogger,
  });
  void applyPlan({
    plan,
    mirror,
    source: SOURCE,
    client,
    clock: systemClock,
    log: silentLogger,
    signal: new AbortController().signal,
    events: {
      started: say,
      stepStarted: say,
      stepEnded: say,
      sending: () => undefined,
      sent: say,
      lookingUp: say,
    },
    secrets: NO_SECRETS,
    desired: () => undefined,
    concurrency: 2,
  }).then(async () => {
    await client.close();
    mirror.close();
    process.disconnect();
  });
});
