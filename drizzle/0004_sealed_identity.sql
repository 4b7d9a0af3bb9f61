CREATE TABLE `fingerprint_key` (
	`id` integer PRIMARY KEY NOT NULL,
	`key` blob NOT NULL
);
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
ALTER TABLE `replaced_roots` ADD `into_run` integer;--> statement-breakpoint
CREATE INDEX `replaced_roots_gone` ON `replaced_roots` (`run`,`into_run`) WHERE "into_run" IS NOT NULL;--> statement-breakpoint
ALTER TABLE `snapshots` ADD `seal` blob;--> statement-breakpoint
ALTER TABLE `runs` ADD `sweep_digest` blob;