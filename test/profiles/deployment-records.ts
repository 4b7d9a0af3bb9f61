/** What the deployment holds when it starts: records as its answers show them, and what its answers leave out. */
export type Body = Record<string, unknown>;

export const ORG = '0190bbbb-0000-7000-8000-000000000001';
export const OTHER_ORG = '0190bbbb-0000-7000-8000-000000000002';
/** The user whose key it is. */
export const OWN_USER = 'a0000000-0000-4000-8000-000000000001';

export function uuid(family: number, n: number): string {
  return `${String(family).padStart(8, '0')}-0000-4000-8000-${String(n).padStart(12, '0')}`;
}

/** A time this many hours before the deployment's own. */
export function hoursAgo(hours: number): string {
  return new Date(Date.UTC(2026, 2, 1) - hours * 3_600_000).toISOString();
}

export interface State {
  readonly organizations: Body[];
  /** Whole; a list row shows some of it. */
  readonly projects: Body[];
  readonly roles: Body[];
  /** With `role_id`. */
  readonly memberships: Body[];
  readonly members: Body[];
  readonly invites: Body[];
  readonly domains: Body[];
  /** The one table behind `plugins` and the `pipeline_*` views; `views` is not shown. */
  readonly components: (Body & { readonly views: readonly string[] })[];
  readonly exports: Body[];
  /** Export id → the members of `destination.config` that no answer shows. */
  readonly secrets: Map<string, Body>;
  readonly proxies: Body[];
  /** Project id → recordings, newest first. */
  readonly recordings: Map<string, Body[]>;
}

function user(n: number, name: string): Body {
  const own = n === 1 ? OWN_USER : uuid(1, n);
  return {
    id: n,
    uuid: own,
    distinct_id: `d${n}`,
    first_name: name,
    last_name: '',
    email: `${name.toLowerCase()}@example.com`,
    is_email_verified: true,
    hedgehog_config: null,
  };
}

export const PEOPLE = [user(1, 'Ada'), user(2, 'Ben'), user(3, 'Cleo')];

function project(id: number, name: string): Body {
  return {
    id,
    uuid: uuid(2, id),
    organization: ORG,
    name,
    created_at: hoursAgo(9000),
    updated_at: hoursAgo(5),
    api_token: `phc_${id}`,
    timezone: 'UTC',
    anonymize_ips: true,
    session_recording_opt_in: true,
    app_urls: ['https://harbor.example.com'],
    secret_api_token: `phs_${id}_in_clear`,
    secret_api_token_backup: null,
    slack_incoming_webhook: `https://hooks.example.com/${id}`,
    test_account_filters: [{ key: 'email', value: '@example.com' }],
  };
}

function component(id: number, name: string, views: readonly string[], more: Body = {}) {
  return {
    views,
    id,
    plugin_type: 'custom',
    name,
    description: `${name}.`,
    url: `https://github.com/example/${id}`,
    icon: null,
    config_schema: [{ key: 'depth', type: 'string' }],
    tag: 'a1b2c3',
    latest_tag: 'd4e5f6',
    is_global: false,
    organization_id: ORG,
    organization_name: 'Harbor Lights',
    capabilities: { methods: ['onEvent'] },
    metrics: {},
    public_jobs: {},
    hog_function_migration_available: true,
    ...more,
  };
}

function batchExport(n: number, name: string, type: string, config: Body): Body {
  return {
    id: uuid(7, n),
    team_id: 1,
    name,
    model: 'events',
    destination: { type, config },
    interval: 'hour',
    paused: false,
    created_at: hoursAgo(100 - n),
    last_updated_at: hoursAgo(1),
    last_paused_at: null,
    start_at: null,
    end_at: null,
    latest_runs: [{ id: uuid(8, n), status: 'Completed' }],
    // The text of `hogql_query`, which no answer holds.
    schema: { hogql_query: 'SELECT event FROM events', fields: [{ alias: 'event' }] },
  };
}

/** The state at the start; a fresh one for each deployment. */
export function initialState(): State {
  const roles = ['Analysts', 'Writers'].map((name, n) => ({
    id: uuid(3, n + 1),
    name,
    created_at: hoursAgo(300),
    created_by: PEOPLE[0],
    is_default: false,
  }));
  const secrets = new Map<string, Body>([
    [uuid(7, 1), { aws_access_key_id: 'AKIA1', aws_secret_access_key: 'stored-secret' }],
    [uuid(7, 2), { user: 'loader', password: 'stored-password' }],
  ]);
  return {
    organizations: [
      {
        id: ORG,
        name: 'Harbor Lights',
        slug: 'harbor-lights',
        logo_media_id: null,
        created_at: hoursAgo(9000),
        updated_at: hoursAgo(2),
        membership_level: 15,
        plugins_access_level: 9,
        teams: [1, 2].map((id) => ({ id, uuid: uuid(2, id), organization: ORG })),
        available_product_features: [{ key: 'sso', name: 'SSO' }],
        is_member_join_email_enabled: true,
        metadata: { instance_tag: 'none' },
        customer_id: null,
        enforce_2fa: null,
        member_count: PEOPLE.length,
      },
    ],
    projects: [project(1, 'Web'), project(2, 'App')],
    roles,
    memberships: [1, 2].map((n) => ({
      id: uuid(4, n),
      role_id: roles[0]?.id,
      user: PEOPLE[n],
      organization_member: { id: uuid(5, n + 1), last_login: hoursAgo(n) },
      joined_at: hoursAgo(200 + n),
      updated_at: hoursAgo(20),
      user_uuid: PEOPLE[n]?.['uuid'],
    })),
    members: PEOPLE.map((person, n) => ({
      id: uuid(5, n + 1),
      user: person,
      level: [15, 8, 1][n],
      joined_at: hoursAgo(900 - n),
      updated_at: hoursAgo(20),
      is_2fa_enabled: false,
      has_social_auth: false,
      last_login: hoursAgo(n),
    })),
    invites: [
      {
        id: uuid(6, 1),
        target_email: 'dora@example.com',
        first_name: 'Dora',
        emailing_attempt_made: true,
        level: 1,
        is_expired: false,
        created_by: PEOPLE[0],
        created_at: hoursAgo(4),
        updated_at: hoursAgo(4),
        message: null,
        private_project_access: [],
      },
    ],
    domains: [
      {
        id: uuid(9, 1),
        domain: 'harbor.example.com',
        is_verified: true,
        verified_at: hoursAgo(400),
        verification_challenge: 'c1',
        jit_provisioning_enabled: true,
        sso_enforcement: 'google-oauth2',
        has_saml: false,
        saml_entity_id: null,
        saml_acs_url: null,
        saml_x509_cert: null,
      },
    ],
    components: [
      component(11, 'GeoIP', ['plugins', 'pipeline_transformations'], {
        is_global: true,
        organization_id: OTHER_ORG,
        organization_name: 'The maker',
      }),
      component(12, 'Downsampler', ['plugins', 'pipeline_transformations']),
      component(13, 'Customer.io', ['plugins', 'pipeline_destinations']),
      component(14, 'Banner', ['plugins', 'pipeline_frontend_apps']),
      component(15, 'Importer', ['plugins', 'pipeline_import_apps'], { plugin_type: 'source', url: null }),
    ],
    exports: [
      batchExport(2, 'Events to Postgres', 'Postgres', { host: 'db.example.com', schema: 'public' }),
      batchExport(1, 'Events to S3', 'S3', { bucket_name: 'harbor', region: 'eu-central-1' }),
    ],
    secrets,
    proxies: [
      {
        id: uuid(10, 1),
        domain: 'e.harbor.example.com',
        target_cname: 'abc.proxy.example.net',
        status: 'valid',
        message: null,
        created_at: hoursAgo(50),
        updated_at: hoursAgo(1),
        created_by: 1,
      },
    ],
    recordings: new Map([
      ['1', Array.from({ length: 120 }, (_each, n) => recording(n))],
      ['2', []],
    ]),
  };
}

/** Every twelfth hour one: most are older than the three days that a list shows unasked. */
function recording(n: number): Body {
  return {
    id: uuid(20, n),
    distinct_id: `visitor-${n % 7}`,
    viewed: false,
    recording_duration: 30 + n,
    active_seconds: 10,
    inactive_seconds: 20,
    start_time: hoursAgo(12 * n),
    end_time: hoursAgo(12 * n - 0.01),
    click_count: n,
    keypress_count: 0,
    mouse_activity_count: 4,
    console_log_count: 0,
    console_warn_count: 0,
    console_error_count: 0,
    start_url: 'https://harbor.example.com/',
    person: { id: n % 7, name: `visitor-${n % 7}`, distinct_ids: [], properties: {}, uuid: uuid(21, n % 7) },
    storage: 'object_storage',
    snapshot_source: 'web',
    ongoing: n === 0,
  };
}
