/** For `npm run migrations:generate`: the registry of a fleet, in PostgreSQL. */
import type { Config } from 'drizzle-kit';

const config: Config = {
  dialect: 'postgresql',
  schema: './src/fleet/registry/schema.ts',
  out: './drizzle-fleet',
};

// drizzle-kit reads the default export only.
export default config;
