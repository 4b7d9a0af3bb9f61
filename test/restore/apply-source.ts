/** The source that the apply tests restore: the profile that names the most writable fields. */
import { CATALOG } from '../../src/catalog/catalog.ts';
import { applyProfile } from '../../src/config/profile.ts';
import { profileOption } from '../../src/config/profile.ts';

export const SOURCE = {
  name: 'production',
  definitions: applyProfile(CATALOG, profileOption('posthog', '.'), {}),
  pageSize: 100,
} as const;
