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
