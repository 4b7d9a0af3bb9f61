/** The demo's two organizations with their domains, projects and proxy records. */
import type { JsonObject } from '../../core/json.ts';
import { type Chance, daysBefore, exactNumber } from './chance.ts';
import type { SeedRecord, SeedUser } from './seed.ts';

export interface SeedOrganization {
  readonly id: string;
  readonly name: string;
  readonly slug: string;
  readonly ageDays: number;
  readonly enforce2fa: boolean | null;
  readonly users: readonly SeedUser[];
}

export function organizationRecord(organization: SeedOrganization, chance: Chance): SeedRecord {
  return {
    kind: 'organizations',
    scope: {},
    body: {
      id: organization.id,
      name: organization.name,
      slug: organization.slug,
      logo_media_id: organization.enforce2fa === null ? null : chance.uuid(),
      created_at: daysBefore(organization.ageDays),
      updated_at: daysBefore(3),
      membership_level: null,
      plugins_access_level: 9,
      teams: [],
      available_product_features: [
        { key: 'recordings_file_export', name: 'Recordings export' },
        { key: 'role_based_access', name: 'Role-based access' },
      ],
      is_member_join_email_enabled: true,
      metadata: '{"plan":"scale","seats":40}',
      customer_id: `cus_${organization.slug}`,
      enforce_2fa: organization.enforce2fa,
      member_count: '0',
    },
  };
}

export interface SeedProject {
  readonly id: number;
  readonly name: string;
  readonly timezone: string;
  readonly isPrivate: boolean;
  /** Settings that differ from a fresh project's. */
  readonly settings: JsonObject;
}

/** 64-bit account numbers and prices with two decimals: what a double would quietly alter. */
export const WAREHOUSE_SETTINGS: JsonObject = {
  session_recording_sample_rate: exactNumber('0.50'),
  extra_settings: {
    warehouse_account: exactNumber('9223372036854775807'),
    event_price_eur: exactNumber('1.10'),
    label: 'Küste → Lager 🌊',
  },
};

export function projectRecord(
  organizationId: string,
  project: SeedProject,
  ageDays: number,
  chance: Chance,
): SeedRecord {
  return {
    kind: 'projects',
    scope: { organization_id: organizationId },
    body: {
      id: project.id,
      uuid: chance.uuid(),
      organization: organizationId,
      api_token: chance.token('svc_'),
      name: project.name,
      product_description: null,
      timezone: project.timezone,
      week_start_day: 1,
      app_urls: [`https://app-${project.id}.kittiwake.example`],
      recording_domains: null,
      anonymize_ips: project.isPrivate,
      completed_snippet_onboarding: true,
      test_account_filters: [
        { key: 'email', type: 'person', value: '@kittiwake.example', operator: 'not_icontains' },
      ],
      data_attributes: ['data-attr', 'data-testid'],
      autocapture_opt_out: false,
      capture_console_log_opt_in: true,
      capture_performance_opt_in: true,
      session_recording_opt_in: true,
      session_recording_sample_rate: null,
      session_recording_minimum_duration_milliseconds: 2000,
      surveys_opt_in: null,
      heatmaps_opt_in: false,
      access_control: project.isPrivate,
      slack_incoming_webhook: project.isPrivate ? `https://hooks.chat.example/${chance.token('', 24)}` : null,
      extra_settings: null,
      ...project.settings,
      is_demo: false,
      ingested_event: true,
      created_at: daysBefore(ageDays),
      updated_at: daysBefore(2),
      secret_api_token: chance.token('svs_'),
      secret_api_token_backup: null,
      live_events_token: '',
    },
  };
}

interface SeedDomain {
  readonly domain: string;
  readonly isVerified: boolean;
  readonly jit: boolean;
  readonly sso: string;
  readonly saml: boolean;
}

export function domainRecords(
  organizationId: string,
  domains: readonly SeedDomain[],
  chance: Chance,
): SeedRecord[] {
  return domains.map(({ domain, isVerified, jit, sso, saml }) => ({
    kind: 'domains',
    scope: { organization_id: organizationId },
    body: {
      id: chance.uuid(),
      domain,
      is_verified: isVerified,
      verified_at: isVerified ? daysBefore(chance.between(40, 300)) : null,
      verification_challenge: chance.token('', 40),
      jit_provisioning_enabled: jit,
      sso_enforcement: sso,
      has_saml: saml,
      saml_entity_id: saml ? `https://login.${domain}/saml/metadata` : null,
      saml_acs_url: saml ? `https://login.${domain}/saml/acs` : null,
      saml_x509_cert: saml
        ? `-----BEGIN CERTIFICATE-----\nMIIC${chance.token('', 120)}\n-----END CERTIFICATE-----\n`
        : '',
    },
  }));
}

export function proxyRecords(
  organizationId: string,
  names: readonly string[],
  createdBy: SeedUser,
  chance: Chance,
): SeedRecord[] {
  return names.map((domain, index) => ({
    kind: 'proxy_records',
    scope: { organization_id: organizationId },
    body: {
      id: chance.uuid(),
      domain,
      target_cname: `${chance.token('', 16).toLowerCase()}.proxy.svc.example`,
      status: index === 0 ? 'waiting' : 'valid',
      message: index === 0 ? 'No CNAME record found yet.' : null,
      created_at: daysBefore(30 + index * 25),
      updated_at: daysBefore(1 + index),
      created_by: createdBy['id'] ?? null,
    },
  }));
}
