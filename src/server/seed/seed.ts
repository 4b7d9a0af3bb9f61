/** The contents of a new sandbox. */
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { JsonObject } from '../../core/json.ts';

export type SeedUser = JsonObject & { readonly uuid: string };

export interface SeedRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly body: JsonObject;
  /** Only for kinds whose id is not in the body. */
  readonly id?: string;
}

export interface Seed {
  /** Keys without a user belong to the first. */
  readonly users: readonly SeedUser[];
  readonly records: Iterable<SeedRecord>;
}

/** Only one user: the creator of an organization becomes its owner. */
export const EMPTY_SEED: Seed = {
  users: [
    {
      id: 1,
      uuid: '00000000-0000-4000-8000-000000000001',
      distinct_id: 'sandbox-owner',
      first_name: 'Sandbox',
      last_name: 'Owner',
      email: 'owner@sandbox.example',
      is_email_verified: true,
      hedgehog_config: null,
    },
  ],
  records: [],
};
