/** A configuration of nothing, for what reads a mirror without its sources. */
import type { Config } from '../../src/config/config.ts';

export const EMPTY_CONFIG = {
  configured: [],
  unconfigured: [],
  knownSecrets: [],
  unmasked: [],
  http: { token: null, triggerToken: null },
  replica: { token: null },
  notices: [],
  pings: [],
} as unknown as Config;
