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
	PRIMARY KEY(`forget`, `run`)
) WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `collections` ADD `last_at` text;--> statement-breakpoint
ALTER TABLE `collections` ADD `last_complete_at` text;--> statement-breakpoint
ALTER TABLE `collections` ADD `last_full_at` text;--> statement-breakpoint
ALTER TABLE `held_records` ADD `since_at` text DEFAULT '' NOT NULL;--> statement-breakpoint
UPDATE `collections` SET
	`last_at` = (SELECT `finished_at` FROM `runs` WHERE `run` = `last_run`),
	`last_complete_at` = (SELECT `finished_at` FROM `runs` WHERE `run` = `last_complete_run`),
	`last_full_at` = (SELECT `finished_at` FROM `runs` WHERE `run` = `last_full_run`);--> statement-breakpoint
UPDATE `held_records` SET
	`since_at` = ifnull((SELECT ifnull(`finished_at`, `started_at`) FROM `runs` WHERE `run` = `since_run`), '');
