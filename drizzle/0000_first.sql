CREATE TABLE `counters` (
	`name` text PRIMARY KEY NOT NULL,
	`value` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `jobs` (
	`job` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL,
	`source` text,
	`trigger` text NOT NULL,
	`started_at` text NOT NULL,
	`finished_at` text,
	`outcome` text NOT NULL,
	`run` integer,
	`summary` text NOT NULL,
	`error_code` text,
	`error` text
);
--> statement-breakpoint
CREATE INDEX `jobs_of` ON `jobs` (`name`,`source`,`job`);--> statement-breakpoint
CREATE TABLE `notice_deliveries` (
	`notice` integer NOT NULL,
	`channel` text NOT NULL,
	`attempts` integer NOT NULL,
	`next_attempt_at` text NOT NULL,
	`delivered_at` text,
	`given_up_at` text,
	`error` text,
	PRIMARY KEY(`notice`, `channel`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `notice_deliveries_due` ON `notice_deliveries` (`delivered_at`,`given_up_at`,`next_attempt_at`);--> statement-breakpoint
CREATE TABLE `notice_states` (
	`source` text NOT NULL,
	`subject` text NOT NULL,
	`state` text NOT NULL,
	`since` text NOT NULL,
	`detail` text NOT NULL,
	PRIMARY KEY(`source`, `subject`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `notices` (
	`notice` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`at` text NOT NULL,
	`source` text NOT NULL,
	`subject` text NOT NULL,
	`event` text NOT NULL,
	`content` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `schedules` (
	`schedule` text PRIMARY KEY NOT NULL,
	`cron` text NOT NULL,
	`zone` text NOT NULL,
	`due_at` text NOT NULL,
	`skipped_ticks` integer NOT NULL,
	`missed_ticks` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `field_shape_bases` (
	`source` integer NOT NULL,
	`kind` text NOT NULL,
	`objects` text NOT NULL,
	PRIMARY KEY(`source`, `kind`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `field_shapes` (
	`source` integer NOT NULL,
	`kind` text NOT NULL,
	`field` text NOT NULL,
	`type` text NOT NULL,
	`records` integer NOT NULL,
	PRIMARY KEY(`source`, `kind`, `field`, `type`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `schema_changes` (
	`run` integer NOT NULL,
	`source` integer NOT NULL,
	`kind` text NOT NULL,
	`field` text NOT NULL,
	`change` text NOT NULL,
	`before` text NOT NULL,
	`after` text NOT NULL,
	PRIMARY KEY(`run`, `kind`, `field`, `change`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `batch_exports` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` text GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`team_id` integer GENERATED ALWAYS AS (json_extract("body", '$."team_id"')) VIRTUAL,
	`name` text GENERATED ALWAYS AS (json_extract("body", '$."name"')) VIRTUAL,
	`model` text GENERATED ALWAYS AS (json_extract("body", '$."model"')) VIRTUAL,
	`destination` text GENERATED ALWAYS AS (json_extract("body", '$."destination"')) VIRTUAL,
	`interval` text GENERATED ALWAYS AS (json_extract("body", '$."interval"')) VIRTUAL,
	`paused` integer GENERATED ALWAYS AS (json_extract("body", '$."paused"')) VIRTUAL,
	`created_at` text GENERATED ALWAYS AS (json_extract("body", '$."created_at"')) VIRTUAL,
	`last_updated_at` text GENERATED ALWAYS AS (json_extract("body", '$."last_updated_at"')) VIRTUAL,
	`last_paused_at` text GENERATED ALWAYS AS (json_extract("body", '$."last_paused_at"')) VIRTUAL,
	`start_at` text GENERATED ALWAYS AS (json_extract("body", '$."start_at"')) VIRTUAL,
	`end_at` text GENERATED ALWAYS AS (json_extract("body", '$."end_at"')) VIRTUAL,
	`latest_runs` text GENERATED ALWAYS AS (json_extract("body", '$."latest_runs"')) VIRTUAL,
	`svcql_query` text GENERATED ALWAYS AS (json_extract("body", '$."svcql_query"')) VIRTUAL,
	`schema` blob GENERATED ALWAYS AS (json_extract("body", '$."schema"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `domains` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` text GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`domain` text GENERATED ALWAYS AS (json_extract("body", '$."domain"')) VIRTUAL,
	`is_verified` integer GENERATED ALWAYS AS (json_extract("body", '$."is_verified"')) VIRTUAL,
	`verified_at` text GENERATED ALWAYS AS (json_extract("body", '$."verified_at"')) VIRTUAL,
	`verification_challenge` text GENERATED ALWAYS AS (json_extract("body", '$."verification_challenge"')) VIRTUAL,
	`jit_provisioning_enabled` integer GENERATED ALWAYS AS (json_extract("body", '$."jit_provisioning_enabled"')) VIRTUAL,
	`sso_enforcement` text GENERATED ALWAYS AS (json_extract("body", '$."sso_enforcement"')) VIRTUAL,
	`has_saml` integer GENERATED ALWAYS AS (json_extract("body", '$."has_saml"')) VIRTUAL,
	`saml_entity_id` text GENERATED ALWAYS AS (json_extract("body", '$."saml_entity_id"')) VIRTUAL,
	`saml_acs_url` text GENERATED ALWAYS AS (json_extract("body", '$."saml_acs_url"')) VIRTUAL,
	`saml_x509_cert` text GENERATED ALWAYS AS (json_extract("body", '$."saml_x509_cert"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `invites` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` text GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`target_email` text GENERATED ALWAYS AS (json_extract("body", '$."target_email"')) VIRTUAL,
	`first_name` text GENERATED ALWAYS AS (json_extract("body", '$."first_name"')) VIRTUAL,
	`emailing_attempt_made` integer GENERATED ALWAYS AS (json_extract("body", '$."emailing_attempt_made"')) VIRTUAL,
	`level` integer GENERATED ALWAYS AS (json_extract("body", '$."level"')) VIRTUAL,
	`is_expired` integer GENERATED ALWAYS AS (json_extract("body", '$."is_expired"')) VIRTUAL,
	`created_by` text GENERATED ALWAYS AS (json_extract("body", '$."created_by"')) VIRTUAL,
	`created_at` text GENERATED ALWAYS AS (json_extract("body", '$."created_at"')) VIRTUAL,
	`updated_at` text GENERATED ALWAYS AS (json_extract("body", '$."updated_at"')) VIRTUAL,
	`message` text GENERATED ALWAYS AS (json_extract("body", '$."message"')) VIRTUAL,
	`private_project_access` text GENERATED ALWAYS AS (json_extract("body", '$."private_project_access"')) VIRTUAL,
	`send_email` integer GENERATED ALWAYS AS (json_extract("body", '$."send_email"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `members` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` text GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`user` text GENERATED ALWAYS AS (json_extract("body", '$."user"')) VIRTUAL,
	`level` integer GENERATED ALWAYS AS (json_extract("body", '$."level"')) VIRTUAL,
	`joined_at` text GENERATED ALWAYS AS (json_extract("body", '$."joined_at"')) VIRTUAL,
	`updated_at` text GENERATED ALWAYS AS (json_extract("body", '$."updated_at"')) VIRTUAL,
	`is_2fa_enabled` integer GENERATED ALWAYS AS (json_extract("body", '$."is_2fa_enabled"')) VIRTUAL,
	`has_social_auth` integer GENERATED ALWAYS AS (json_extract("body", '$."has_social_auth"')) VIRTUAL,
	`last_login` text GENERATED ALWAYS AS (json_extract("body", '$."last_login"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `organizations` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` text GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`name` text GENERATED ALWAYS AS (json_extract("body", '$."name"')) VIRTUAL,
	`slug` text GENERATED ALWAYS AS (json_extract("body", '$."slug"')) VIRTUAL,
	`logo_media_id` text GENERATED ALWAYS AS (json_extract("body", '$."logo_media_id"')) VIRTUAL,
	`created_at` text GENERATED ALWAYS AS (json_extract("body", '$."created_at"')) VIRTUAL,
	`updated_at` text GENERATED ALWAYS AS (json_extract("body", '$."updated_at"')) VIRTUAL,
	`membership_level` integer GENERATED ALWAYS AS (json_extract("body", '$."membership_level"')) VIRTUAL,
	`plugins_access_level` integer GENERATED ALWAYS AS (json_extract("body", '$."plugins_access_level"')) VIRTUAL,
	`teams` text GENERATED ALWAYS AS (json_extract("body", '$."teams"')) VIRTUAL,
	`available_product_features` text GENERATED ALWAYS AS (json_extract("body", '$."available_product_features"')) VIRTUAL,
	`is_member_join_email_enabled` integer GENERATED ALWAYS AS (json_extract("body", '$."is_member_join_email_enabled"')) VIRTUAL,
	`metadata` text GENERATED ALWAYS AS (json_extract("body", '$."metadata"')) VIRTUAL,
	`customer_id` text GENERATED ALWAYS AS (json_extract("body", '$."customer_id"')) VIRTUAL,
	`enforce_2fa` integer GENERATED ALWAYS AS (json_extract("body", '$."enforce_2fa"')) VIRTUAL,
	`member_count` text GENERATED ALWAYS AS (json_extract("body", '$."member_count"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `pipeline_destinations` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` integer GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`plugin_type` text GENERATED ALWAYS AS (json_extract("body", '$."plugin_type"')) VIRTUAL,
	`name` text GENERATED ALWAYS AS (json_extract("body", '$."name"')) VIRTUAL,
	`description` text GENERATED ALWAYS AS (json_extract("body", '$."description"')) VIRTUAL,
	`url` text GENERATED ALWAYS AS (json_extract("body", '$."url"')) VIRTUAL,
	`icon` text GENERATED ALWAYS AS (json_extract("body", '$."icon"')) VIRTUAL,
	`config_schema` blob GENERATED ALWAYS AS (json_extract("body", '$."config_schema"')) VIRTUAL,
	`tag` text GENERATED ALWAYS AS (json_extract("body", '$."tag"')) VIRTUAL,
	`latest_tag` text GENERATED ALWAYS AS (json_extract("body", '$."latest_tag"')) VIRTUAL,
	`is_global` integer GENERATED ALWAYS AS (json_extract("body", '$."is_global"')) VIRTUAL,
	`organization_id` text GENERATED ALWAYS AS (json_extract("body", '$."organization_id"')) VIRTUAL,
	`organization_name` text GENERATED ALWAYS AS (json_extract("body", '$."organization_name"')) VIRTUAL,
	`capabilities` blob GENERATED ALWAYS AS (json_extract("body", '$."capabilities"')) VIRTUAL,
	`metrics` blob GENERATED ALWAYS AS (json_extract("body", '$."metrics"')) VIRTUAL,
	`public_jobs` blob GENERATED ALWAYS AS (json_extract("body", '$."public_jobs"')) VIRTUAL,
	`svc_function_migration_available` text GENERATED ALWAYS AS (json_extract("body", '$."svc_function_migration_available"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `pipeline_frontend_apps` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` integer GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`plugin_type` text GENERATED ALWAYS AS (json_extract("body", '$."plugin_type"')) VIRTUAL,
	`name` text GENERATED ALWAYS AS (json_extract("body", '$."name"')) VIRTUAL,
	`description` text GENERATED ALWAYS AS (json_extract("body", '$."description"')) VIRTUAL,
	`url` text GENERATED ALWAYS AS (json_extract("body", '$."url"')) VIRTUAL,
	`icon` text GENERATED ALWAYS AS (json_extract("body", '$."icon"')) VIRTUAL,
	`config_schema` blob GENERATED ALWAYS AS (json_extract("body", '$."config_schema"')) VIRTUAL,
	`tag` text GENERATED ALWAYS AS (json_extract("body", '$."tag"')) VIRTUAL,
	`latest_tag` text GENERATED ALWAYS AS (json_extract("body", '$."latest_tag"')) VIRTUAL,
	`is_global` integer GENERATED ALWAYS AS (json_extract("body", '$."is_global"')) VIRTUAL,
	`organization_id` text GENERATED ALWAYS AS (json_extract("body", '$."organization_id"')) VIRTUAL,
	`organization_name` text GENERATED ALWAYS AS (json_extract("body", '$."organization_name"')) VIRTUAL,
	`capabilities` blob GENERATED ALWAYS AS (json_extract("body", '$."capabilities"')) VIRTUAL,
	`metrics` blob GENERATED ALWAYS AS (json_extract("body", '$."metrics"')) VIRTUAL,
	`public_jobs` blob GENERATED ALWAYS AS (json_extract("body", '$."public_jobs"')) VIRTUAL,
	`svc_function_migration_available` text GENERATED ALWAYS AS (json_extract("body", '$."svc_function_migration_available"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `pipeline_import_apps` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` integer GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`plugin_type` text GENERATED ALWAYS AS (json_extract("body", '$."plugin_type"')) VIRTUAL,
	`name` text GENERATED ALWAYS AS (json_extract("body", '$."name"')) VIRTUAL,
	`description` text GENERATED ALWAYS AS (json_extract("body", '$."description"')) VIRTUAL,
	`url` text GENERATED ALWAYS AS (json_extract("body", '$."url"')) VIRTUAL,
	`icon` text GENERATED ALWAYS AS (json_extract("body", '$."icon"')) VIRTUAL,
	`config_schema` blob GENERATED ALWAYS AS (json_extract("body", '$."config_schema"')) VIRTUAL,
	`tag` text GENERATED ALWAYS AS (json_extract("body", '$."tag"')) VIRTUAL,
	`latest_tag` text GENERATED ALWAYS AS (json_extract("body", '$."latest_tag"')) VIRTUAL,
	`is_global` integer GENERATED ALWAYS AS (json_extract("body", '$."is_global"')) VIRTUAL,
	`organization_id` text GENERATED ALWAYS AS (json_extract("body", '$."organization_id"')) VIRTUAL,
	`organization_name` text GENERATED ALWAYS AS (json_extract("body", '$."organization_name"')) VIRTUAL,
	`capabilities` blob GENERATED ALWAYS AS (json_extract("body", '$."capabilities"')) VIRTUAL,
	`metrics` blob GENERATED ALWAYS AS (json_extract("body", '$."metrics"')) VIRTUAL,
	`public_jobs` blob GENERATED ALWAYS AS (json_extract("body", '$."public_jobs"')) VIRTUAL,
	`svc_function_migration_available` text GENERATED ALWAYS AS (json_extract("body", '$."svc_function_migration_available"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `pipeline_transformations` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` integer GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`plugin_type` text GENERATED ALWAYS AS (json_extract("body", '$."plugin_type"')) VIRTUAL,
	`name` text GENERATED ALWAYS AS (json_extract("body", '$."name"')) VIRTUAL,
	`description` text GENERATED ALWAYS AS (json_extract("body", '$."description"')) VIRTUAL,
	`url` text GENERATED ALWAYS AS (json_extract("body", '$."url"')) VIRTUAL,
	`icon` text GENERATED ALWAYS AS (json_extract("body", '$."icon"')) VIRTUAL,
	`config_schema` blob GENERATED ALWAYS AS (json_extract("body", '$."config_schema"')) VIRTUAL,
	`tag` text GENERATED ALWAYS AS (json_extract("body", '$."tag"')) VIRTUAL,
	`latest_tag` text GENERATED ALWAYS AS (json_extract("body", '$."latest_tag"')) VIRTUAL,
	`is_global` integer GENERATED ALWAYS AS (json_extract("body", '$."is_global"')) VIRTUAL,
	`organization_id` text GENERATED ALWAYS AS (json_extract("body", '$."organization_id"')) VIRTUAL,
	`organization_name` text GENERATED ALWAYS AS (json_extract("body", '$."organization_name"')) VIRTUAL,
	`capabilities` blob GENERATED ALWAYS AS (json_extract("body", '$."capabilities"')) VIRTUAL,
	`metrics` blob GENERATED ALWAYS AS (json_extract("body", '$."metrics"')) VIRTUAL,
	`public_jobs` blob GENERATED ALWAYS AS (json_extract("body", '$."public_jobs"')) VIRTUAL,
	`svc_function_migration_available` text GENERATED ALWAYS AS (json_extract("body", '$."svc_function_migration_available"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `plugins` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` integer GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`plugin_type` text GENERATED ALWAYS AS (json_extract("body", '$."plugin_type"')) VIRTUAL,
	`name` text GENERATED ALWAYS AS (json_extract("body", '$."name"')) VIRTUAL,
	`description` text GENERATED ALWAYS AS (json_extract("body", '$."description"')) VIRTUAL,
	`url` text GENERATED ALWAYS AS (json_extract("body", '$."url"')) VIRTUAL,
	`icon` text GENERATED ALWAYS AS (json_extract("body", '$."icon"')) VIRTUAL,
	`config_schema` blob GENERATED ALWAYS AS (json_extract("body", '$."config_schema"')) VIRTUAL,
	`tag` text GENERATED ALWAYS AS (json_extract("body", '$."tag"')) VIRTUAL,
	`latest_tag` text GENERATED ALWAYS AS (json_extract("body", '$."latest_tag"')) VIRTUAL,
	`is_global` integer GENERATED ALWAYS AS (json_extract("body", '$."is_global"')) VIRTUAL,
	`organization_id` text GENERATED ALWAYS AS (json_extract("body", '$."organization_id"')) VIRTUAL,
	`organization_name` text GENERATED ALWAYS AS (json_extract("body", '$."organization_name"')) VIRTUAL,
	`capabilities` blob GENERATED ALWAYS AS (json_extract("body", '$."capabilities"')) VIRTUAL,
	`metrics` blob GENERATED ALWAYS AS (json_extract("body", '$."metrics"')) VIRTUAL,
	`public_jobs` blob GENERATED ALWAYS AS (json_extract("body", '$."public_jobs"')) VIRTUAL,
	`svc_function_migration_available` text GENERATED ALWAYS AS (json_extract("body", '$."svc_function_migration_available"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `projects` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`updated_at` text GENERATED ALWAYS AS (json_extract("body", '$."updated_at"')) VIRTUAL,
	`live_events_token` text GENERATED ALWAYS AS (json_extract("body", '$."live_events_token"')) VIRTUAL,
	`secret_api_token` text GENERATED ALWAYS AS (json_extract("body", '$."secret_api_token"')) VIRTUAL,
	`secret_api_token_backup` text GENERATED ALWAYS AS (json_extract("body", '$."secret_api_token_backup"')) VIRTUAL,
	`slack_incoming_webhook` text GENERATED ALWAYS AS (json_extract("body", '$."slack_incoming_webhook"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `proxy_records` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`status` text GENERATED ALWAYS AS (json_extract("body", '$."status"')) VIRTUAL,
	`message` text GENERATED ALWAYS AS (json_extract("body", '$."message"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `recording_sharing` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`created_at` text GENERATED ALWAYS AS (json_extract("body", '$."created_at"')) VIRTUAL,
	`enabled` integer GENERATED ALWAYS AS (json_extract("body", '$."enabled"')) VIRTUAL,
	`access_token` text GENERATED ALWAYS AS (json_extract("body", '$."access_token"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `role_memberships` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `roles` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `session_recordings` (
	`_record` integer PRIMARY KEY NOT NULL,
	`_collection` integer NOT NULL,
	`_remote_id` text NOT NULL,
	`_run` integer NOT NULL,
	`body` text NOT NULL,
	`id` text GENERATED ALWAYS AS (json_extract("body", '$."id"')) VIRTUAL,
	`distinct_id` text GENERATED ALWAYS AS (json_extract("body", '$."distinct_id"')) VIRTUAL,
	`viewed` integer GENERATED ALWAYS AS (json_extract("body", '$."viewed"')) VIRTUAL,
	`recording_duration` real GENERATED ALWAYS AS (json_extract("body", '$."recording_duration"')) VIRTUAL,
	`active_seconds` real GENERATED ALWAYS AS (json_extract("body", '$."active_seconds"')) VIRTUAL,
	`inactive_seconds` real GENERATED ALWAYS AS (json_extract("body", '$."inactive_seconds"')) VIRTUAL,
	`start_time` text GENERATED ALWAYS AS (json_extract("body", '$."start_time"')) VIRTUAL,
	`end_time` text GENERATED ALWAYS AS (json_extract("body", '$."end_time"')) VIRTUAL,
	`click_count` integer GENERATED ALWAYS AS (json_extract("body", '$."click_count"')) VIRTUAL,
	`keypress_count` integer GENERATED ALWAYS AS (json_extract("body", '$."keypress_count"')) VIRTUAL,
	`mouse_activity_count` integer GENERATED ALWAYS AS (json_extract("body", '$."mouse_activity_count"')) VIRTUAL,
	`console_log_count` integer GENERATED ALWAYS AS (json_extract("body", '$."console_log_count"')) VIRTUAL,
	`console_warn_count` integer GENERATED ALWAYS AS (json_extract("body", '$."console_warn_count"')) VIRTUAL,
	`console_error_count` integer GENERATED ALWAYS AS (json_extract("body", '$."console_error_count"')) VIRTUAL,
	`start_url` text GENERATED ALWAYS AS (json_extract("body", '$."start_url"')) VIRTUAL,
	`person` text GENERATED ALWAYS AS (json_extract("body", '$."person"')) VIRTUAL,
	`storage` text GENERATED ALWAYS AS (json_extract("body", '$."storage"')) VIRTUAL,
	`snapshot_source` text GENERATED ALWAYS AS (json_extract("body", '$."snapshot_source"')) VIRTUAL,
	`ongoing` integer GENERATED ALWAYS AS (json_extract("body", '$."ongoing"')) VIRTUAL
);
--> statement-breakpoint
CREATE TABLE `checks` (
	`collection` integer NOT NULL,
	`record` integer NOT NULL,
	`run` integer NOT NULL,
	PRIMARY KEY(`collection`, `record`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `checks_age` ON `checks` (`collection`,`run`,`record`);--> statement-breakpoint
CREATE TABLE `held_records` (
	`record` integer PRIMARY KEY NOT NULL,
	`collection` integer NOT NULL,
	`since_run` integer NOT NULL,
	`since_at` text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE TABLE `record_keys` (
	`collection` integer NOT NULL,
	`remote_id` text NOT NULL,
	`record` integer NOT NULL,
	`hash_start` blob NOT NULL,
	`volatile` integer,
	PRIMARY KEY(`collection`, `remote_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `removed` (
	`record` integer PRIMARY KEY NOT NULL,
	`collection` integer NOT NULL,
	`remote_id` text NOT NULL,
	`run` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `removed_key` ON `removed` (`collection`,`remote_id`);--> statement-breakpoint
CREATE TABLE `revisions` (
	`run` integer NOT NULL,
	`collection` integer NOT NULL,
	`record` integer NOT NULL,
	`change` integer NOT NULL,
	`previous` integer,
	`ordinal` integer NOT NULL,
	`hash` blob,
	`encoding` integer,
	`body` blob,
	PRIMARY KEY(`run`, `collection`, `record`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `revisions_of` ON `revisions` (`record`,`run`) WHERE "previous" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `sealing_rules` (
	`source` integer NOT NULL,
	`kind` text NOT NULL,
	`run` integer NOT NULL,
	`volatile_fields` text NOT NULL,
	PRIMARY KEY(`source`, `kind`, `run`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `id_map` (
	`source` text NOT NULL,
	`kind` text NOT NULL,
	`old_scope` text NOT NULL,
	`old_id` text NOT NULL,
	`new_scope` text NOT NULL,
	`new_id` text NOT NULL,
	`restore` integer NOT NULL,
	`at` text NOT NULL,
	PRIMARY KEY(`source`, `kind`, `new_scope`, `new_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `id_map_old` ON `id_map` (`source`,`kind`,`old_id`);--> statement-breakpoint
CREATE TABLE `restore_steps` (
	`restore` integer NOT NULL,
	`step` integer NOT NULL,
	`outcome` text NOT NULL,
	`status` integer,
	`new_id` text,
	`verified` integer,
	`differences` text NOT NULL,
	`digest` text,
	`error_code` text,
	`error` text,
	`attempts` integer NOT NULL,
	`sent_at` text,
	`ended_at` text,
	`inverse` text,
	PRIMARY KEY(`restore`, `step`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `restores` (
	`restore` integer PRIMARY KEY NOT NULL,
	`source` text NOT NULL,
	`plan_hash` text NOT NULL,
	`plan` text NOT NULL,
	`from_ref` text NOT NULL,
	`undoes` integer,
	`started_at` text NOT NULL,
	`finished_at` text,
	`outcome` text NOT NULL,
	`approved` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `acceptances` (
	`source` text NOT NULL,
	`kind` text NOT NULL,
	`scope` text NOT NULL,
	`remote_id` text NOT NULL,
	`path` text NOT NULL,
	`fingerprint` text NOT NULL,
	`reason` text NOT NULL,
	`accepted_at` text NOT NULL,
	`until` text,
	PRIMARY KEY(`source`, `kind`, `scope`, `remote_id`, `path`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `acceptances_fingerprint` ON `acceptances` (`source`,`fingerprint`);--> statement-breakpoint
CREATE TABLE `fingerprint_key` (
	`id` integer PRIMARY KEY NOT NULL,
	`key` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `forgets` (
	`forget` integer PRIMARY KEY NOT NULL,
	`at` text NOT NULL,
	`policy` text NOT NULL,
	`sources` text NOT NULL,
	`runs` text NOT NULL,
	`run_count` integer NOT NULL,
	`tip_run` integer NOT NULL,
	`root_before` blob NOT NULL,
	`root_after` blob NOT NULL,
	`replaced_digest` blob NOT NULL,
	`link` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `replaced_roots` (
	`forget` integer NOT NULL,
	`run` integer NOT NULL,
	`root` blob NOT NULL,
	`into_run` integer,
	PRIMARY KEY(`forget`, `run`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `replaced_roots_gone` ON `replaced_roots` (`run`,`into_run`) WHERE "into_run" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `row_seals` (
	`set` text NOT NULL,
	`member` text NOT NULL,
	`seal` blob NOT NULL,
	PRIMARY KEY(`set`, `member`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `snapshots` (
	`name` text PRIMARY KEY NOT NULL,
	`run` integer NOT NULL,
	`pinned_at` text NOT NULL,
	`is_baseline` integer NOT NULL,
	`seal` blob
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `carried_sweeps` (
	`run` integer NOT NULL,
	`collection` integer NOT NULL,
	`seen_run` integer NOT NULL,
	`seen_at` text,
	`is_published` integer NOT NULL,
	`outcome` text NOT NULL,
	`mode` text,
	`error_code` text,
	`error` text,
	PRIMARY KEY(`run`, `collection`, `seen_run`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `runs` (
	`run` integer PRIMARY KEY NOT NULL,
	`source` integer NOT NULL,
	`trigger` text NOT NULL,
	`kinds` text,
	`started_at` text NOT NULL,
	`finished_at` text,
	`outcome` text NOT NULL,
	`requests` integer NOT NULL,
	`retries` integer NOT NULL,
	`added` integer NOT NULL,
	`changed` integer NOT NULL,
	`removed` integer NOT NULL,
	`unchanged` integer NOT NULL,
	`error_code` text,
	`error` text,
	`change_digest` blob,
	`sweep_digest` blob,
	`previous_root` blob,
	`root` blob,
	FOREIGN KEY (`source`) REFERENCES `sources`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `sweeps` (
	`run` integer NOT NULL,
	`collection` integer NOT NULL,
	`outcome` text NOT NULL,
	`mode` text,
	`pages` integer NOT NULL,
	`count` integer,
	`records` integer NOT NULL,
	`added` integer NOT NULL,
	`changed` integer NOT NULL,
	`removed` integer NOT NULL,
	`unchanged` integer NOT NULL,
	`held` integer NOT NULL,
	`error_code` text,
	`error` text,
	PRIMARY KEY(`run`, `collection`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `collections` (
	`id` integer PRIMARY KEY NOT NULL,
	`source` integer NOT NULL,
	`kind` text NOT NULL,
	`scope` text NOT NULL,
	`organization_id` text GENERATED ALWAYS AS (json_extract("scope", '$.organization_id')) VIRTUAL,
	`project_id` text GENERATED ALWAYS AS (json_extract("scope", '$.project_id')) VIRTUAL,
	`role_id` text GENERATED ALWAYS AS (json_extract("scope", '$.role_id')) VIRTUAL,
	`records` integer NOT NULL,
	`last_run` integer,
	`last_at` text,
	`last_complete_run` integer,
	`last_complete_at` text,
	`last_full_run` integer,
	`last_full_at` text,
	`last_outcome` text,
	`last_error_code` text,
	`last_error` text,
	`page_cap` integer,
	`retired_run` integer,
	FOREIGN KEY (`source`) REFERENCES `sources`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `collections_key` ON `collections` (`source`,`kind`,`scope`);--> statement-breakpoint
CREATE TABLE `sources` (
	`id` integer PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`base_url` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `sources_name_unique` ON `sources` (`name`);--> statement-breakpoint
CREATE VIEW `removed_records` AS SELECT c."kind" AS "kind", s."name" AS "source", c."organization_id" AS "organization_id",
  c."project_id" AS "project_id", c."role_id" AS "role_id", r."remote_id" AS "id", r."run" AS "removed_run",
  n."finished_at" AS "removed_at", r."record" AS "record"
  FROM "removed" r JOIN "collections" c ON c."id" = r."collection" JOIN "sources" s ON s."id" = c."source"
  JOIN "runs" n ON n."run" = r."run";
--> statement-breakpoint
INSERT INTO `row_seals` VALUES ('acceptances', '', x''), ('fingerprint_key', '', x''), ('runs', '', x'');
