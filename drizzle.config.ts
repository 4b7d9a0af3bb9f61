/** For `npm run migrations:generate`: where drizzle-kit finds the schema and writes migrations. */
import type { Config } from 'drizzle-kit';

const config: Config = {
  dialect: 'sqlite',
  schema: './src/mirror/schema/*.ts',
  out: './drizzle',
};

// drizzle-kit reads the default export only.
export default config;
