/** A writing client of the rig under limits of the test's choice, closed with the test. */
import { onTestFinished } from 'vitest';
import { type WriteClient, createWriteClient } from '../../src/api/write-client.ts';
import type { RateLimits } from '../../src/config/config.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import type { FakeClock } from '../faults/fake-clock.ts';
import { KEY } from '../server/running-sandbox.ts';
import type { Rig } from './apply-rig.ts';

export function limitedClient(rig: Rig, clock: FakeClock, rate: RateLimits): WriteClient {
  const client = createWriteClient({
    baseUrl: new URL(rig.proxy.url),
    apiKey: new Secret(KEY),
    rate,
    retry: { attempts: 3, maxWaitSeconds: 300 },
    userAgent: 'test',
    clock,
    random: () => 0.5,
    log: silentLogger,
  });
  onTestFinished(() => client.close());
  return client;
}
