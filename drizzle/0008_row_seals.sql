CREATE TABLE `field_shape_bases` (
	`source` integer NOT NULL,
	`kind` text NOT NULL,
	`objects` text NOT NULL,
	PRIMARY KEY(`source`, `kind`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `row_seals` (
	`set` text NOT NULL,
	`member` text NOT NULL,
	`seal` blob NOT NULL,
	PRIMARY KEY(`set`, `member`)
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `row_seals` VALUES ('acceptances', '', x''), ('fingerprint_key', '', x''), ('runs', '', x'');
