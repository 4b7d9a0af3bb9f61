CREATE TABLE `intervals` (
	`interval` text PRIMARY KEY NOT NULL,
	`setting` text NOT NULL,
	`interval_ms` integer NOT NULL,
	`changed_at` text,
	`before_ms` integer
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
CREATE TABLE `notice_channels` (
	`channel` text PRIMARY KEY NOT NULL,
	`problem` text,
	`read_by` text NOT NULL,
	`file_hash` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
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
	`since_at` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `records` (
	`record` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`collection` integer NOT NULL,
	`remote_id` text NOT NULL,
	`run` integer NOT NULL,
	`change` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`previous` integer,
	`hash` blob,
	`volatile` integer,
	`body` text,
	`last_name` text
);
--> statement-breakpoint
CREATE INDEX `records_key` ON `records` (`collection`,`remote_id`,`hash`,`volatile`);--> statement-breakpoint
CREATE INDEX `records_run` ON `records` (`run`,`collection`);--> statement-breakpoint
CREATE INDEX `records_removed` ON `records` (`collection`,`remote_id`) WHERE "hash" IS NULL;--> statement-breakpoint
CREATE TABLE `revisions` (
	`run` integer NOT NULL,
	`collection` integer NOT NULL,
	`record` integer NOT NULL,
	`change` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`previous` integer,
	`hash` blob,
	`encoding` integer,
	`body` blob,
	PRIMARY KEY(`run`, `collection`, `record`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `revisions_of` ON `revisions` (`record`,`run`);--> statement-breakpoint
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
	`started_by` text NOT NULL,
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
	`accepted_by` text NOT NULL,
	`until` text,
	PRIMARY KEY(`source`, `kind`, `scope`, `remote_id`, `path`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `acceptances_fingerprint` ON `acceptances` (`source`,`fingerprint`);--> statement-breakpoint
CREATE TABLE `audit_log` (
	`entry` integer PRIMARY KEY NOT NULL,
	`at` text NOT NULL,
	`by` text NOT NULL,
	`via` text NOT NULL,
	`action` text NOT NULL,
	`about` text NOT NULL,
	`member` text NOT NULL,
	`row` text NOT NULL,
	`root` blob,
	`hash` blob NOT NULL
);
--> statement-breakpoint
CREATE INDEX `audit_log_row` ON `audit_log` (`about`,`member`);--> statement-breakpoint
CREATE TABLE `fingerprint_key` (
	`id` integer PRIMARY KEY NOT NULL,
	`key` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `forgets` (
	`forget` integer PRIMARY KEY NOT NULL,
	`at` text NOT NULL,
	`forgotten_by` text NOT NULL,
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
	`pinned_by` text NOT NULL,
	`is_baseline` integer NOT NULL
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
	`last_entry` integer,
	`last_entry_hash` blob,
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
	`base_url` text NOT NULL,
	`moved_from` text,
	`moved_run` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `sources_name_unique` ON `sources` (`name`);--> statement-breakpoint
CREATE VIEW `all_revisions` AS SELECT "run", "collection", "record", "change", "ordinal", "previous", "hash" FROM "records"
  UNION ALL SELECT "run", "collection", "record", "change", "ordinal", "previous", "hash" FROM "revisions";--> statement-breakpoint
CREATE VIEW `removed_records` AS SELECT c."kind" AS "kind", s."name" AS "source", c."organization_id" AS "organization_id",
  c."project_id" AS "project_id", c."role_id" AS "role_id", r."remote_id" AS "id", r."last_name" AS "name", r."run" AS "removed_run",
  n."finished_at" AS "removed_at", r."record" AS "record"
  FROM "records" r JOIN "collections" c ON c."id" = r."collection" JOIN "sources" s ON s."id" = c."source"
  JOIN "runs" n ON n."run" = r."run" WHERE r."hash" IS NULL;
--> statement-breakpoint
INSERT INTO `row_seals` VALUES ('fingerprint_key', '', zeroblob(32)), ('runs', '', zeroblob(32));
