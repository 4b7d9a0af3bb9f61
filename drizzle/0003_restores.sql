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
