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
CREATE INDEX `revisions_of` ON `revisions` (`record`,`run`) WHERE "previous" IS NOT NULL;