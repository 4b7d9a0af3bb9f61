CREATE SCHEMA "tidemark_query";
--> statement-breakpoint
CREATE SCHEMA "tidemark";
--> statement-breakpoint
CREATE TABLE "tidemark"."cells" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."cells_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"name" text NOT NULL,
	"group_id" bigint NOT NULL,
	"address" text NOT NULL,
	"profile" text NOT NULL,
	"organizations" jsonb,
	"secret" text NOT NULL,
	"owner" text,
	"schedule" text NOT NULL,
	"document" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"shows_values" boolean DEFAULT false NOT NULL,
	"state" text DEFAULT 'active' NOT NULL,
	"failures" integer DEFAULT 0 NOT NULL,
	"error_code" text,
	"error" text,
	"quarantined_at" timestamp(3) with time zone,
	"due_at" timestamp(3) with time zone DEFAULT now(),
	"last_run" integer,
	"last_outcome" text,
	"published_at" timestamp(3) with time zone,
	"complete_at" timestamp(3) with time zone,
	"root" text,
	"projected_run" integer,
	"stored_key" text,
	"stored_run" integer,
	"stored_at" timestamp(3) with time zone,
	"mirror_version" integer,
	"record_count" bigint DEFAULT 0 NOT NULL,
	"finding_count" integer,
	"baseline" text,
	"baseline_run" integer,
	"baseline_order" jsonb,
	"baseline_error" text,
	"checkout_holder" text,
	"checkout_at" timestamp(3) with time zone,
	"added_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"changed_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "cells_name" UNIQUE("name"),
	CONSTRAINT "cells_state" CHECK ("tidemark"."cells"."state" in ('active', 'quarantined', 'checked_out', 'retired'))
);
--> statement-breakpoint
CREATE TABLE "tidemark"."changes" (
	"cell_id" bigint NOT NULL,
	"run" integer NOT NULL,
	"kind" text NOT NULL,
	"scope" text NOT NULL,
	"remote_id" text NOT NULL,
	"name" text NOT NULL,
	"change" text NOT NULL,
	"paths" jsonb NOT NULL,
	"at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "changes_cell_id_run_kind_scope_remote_id_pk" PRIMARY KEY("cell_id","run","kind","scope","remote_id")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."findings" (
	"cell_id" bigint NOT NULL,
	"kind" text NOT NULL,
	"scope" text NOT NULL,
	"remote_id" text NOT NULL,
	"path" text NOT NULL,
	"name" text NOT NULL,
	"change" text NOT NULL,
	"severity" text NOT NULL,
	"since" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"before" jsonb,
	"after" jsonb
);
--> statement-breakpoint
CREATE TABLE "tidemark"."groups" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."groups_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"origin" text NOT NULL,
	"secret" text NOT NULL,
	"fence" bigint DEFAULT 0 NOT NULL,
	"holder" text,
	"held_at" timestamp(3) with time zone,
	"uncounted_since" timestamp(3) with time zone,
	"uncounted_until" timestamp(3) with time zone,
	"checked_out_cell" bigint,
	"rate_log" jsonb,
	"rate_log_at" timestamp(3) with time zone,
	CONSTRAINT "groups_origin_secret" UNIQUE("origin","secret")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."queue_versions" (
	"version" integer PRIMARY KEY NOT NULL,
	"compatible_from" integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tidemark"."records" (
	"cell_id" bigint NOT NULL,
	"kind" text NOT NULL,
	"scope" text NOT NULL,
	"remote_id" text NOT NULL,
	"name" text NOT NULL,
	"organization_id" text,
	"body" jsonb,
	CONSTRAINT "records_cell_id_kind_scope_remote_id_pk" PRIMARY KEY("cell_id","kind","scope","remote_id")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."runs" (
	"cell_id" bigint NOT NULL,
	"run" integer NOT NULL,
	"outcome" text NOT NULL,
	"started_at" timestamp(3) with time zone NOT NULL,
	"finished_at" timestamp(3) with time zone NOT NULL,
	"requests" integer NOT NULL,
	"retries" integer NOT NULL,
	"added" integer NOT NULL,
	"changed" integer NOT NULL,
	"removed" integer NOT NULL,
	"unchanged" integer NOT NULL,
	"root" text,
	"error_code" text,
	"error" text,
	"worker" text NOT NULL,
	"fence" bigint NOT NULL,
	"published_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "runs_cell_id_run_pk" PRIMARY KEY("cell_id","run")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."schema_versions" (
	"version" integer PRIMARY KEY NOT NULL,
	"hash" text NOT NULL,
	"compatible_from" integer NOT NULL,
	"applied_at" timestamp(3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tidemark"."workers" (
	"name" text PRIMARY KEY NOT NULL,
	"host" text NOT NULL,
	"version" text NOT NULL,
	"started_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"is_draining" boolean DEFAULT false NOT NULL
);
--> statement-breakpoint
ALTER TABLE "tidemark"."cells" ADD CONSTRAINT "cells_group_id_groups_id_fk" FOREIGN KEY ("group_id") REFERENCES "tidemark"."groups"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tidemark"."changes" ADD CONSTRAINT "changes_cell_id_cells_id_fk" FOREIGN KEY ("cell_id") REFERENCES "tidemark"."cells"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tidemark"."findings" ADD CONSTRAINT "findings_cell_id_cells_id_fk" FOREIGN KEY ("cell_id") REFERENCES "tidemark"."cells"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tidemark"."records" ADD CONSTRAINT "records_cell_id_cells_id_fk" FOREIGN KEY ("cell_id") REFERENCES "tidemark"."cells"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tidemark"."runs" ADD CONSTRAINT "runs_cell_id_cells_id_fk" FOREIGN KEY ("cell_id") REFERENCES "tidemark"."cells"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "cells_due" ON "tidemark"."cells" USING btree ("due_at");--> statement-breakpoint
CREATE INDEX "cells_group" ON "tidemark"."cells" USING btree ("group_id");--> statement-breakpoint
CREATE INDEX "changes_at" ON "tidemark"."changes" USING btree ("at" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "findings_cell" ON "tidemark"."findings" USING btree ("cell_id");--> statement-breakpoint
CREATE INDEX "records_kind" ON "tidemark"."records" USING btree ("kind");--> statement-breakpoint
CREATE INDEX "runs_published" ON "tidemark"."runs" USING btree ("published_at" DESC NULLS LAST);--> statement-breakpoint
CREATE VIEW "tidemark_query"."cells" AS (select name as cell, address, profile, organizations, owner, schedule, state, failures, error_code, due_at, last_run, last_outcome, published_at, complete_at, root, stored_at, record_count as records, finding_count as findings, baseline, baseline_run from tidemark.cells);--> statement-breakpoint
CREATE VIEW "tidemark_query"."changes" AS (select c.name as cell, x.run, x.at, x.kind, x.scope, x.remote_id as id, x.name, x.change, x.paths from tidemark.changes x join tidemark.cells c on c.id = x.cell_id);--> statement-breakpoint
CREATE VIEW "tidemark_query"."findings" AS (select c.name as cell, f.kind, f.scope, f.remote_id as id, f.name, f.path, f.change, f.severity, f.since, f.before, f.after from tidemark.findings f join tidemark.cells c on c.id = f.cell_id where c.state <> 'retired');--> statement-breakpoint
CREATE VIEW "tidemark_query"."records" AS (select c.name as cell, r.kind, r.scope, r.remote_id as id, r.name, r.organization_id, r.body from tidemark.records r join tidemark.cells c on c.id = r.cell_id where c.state <> 'retired');--> statement-breakpoint
CREATE VIEW "tidemark_query"."runs" AS (select c.name as cell, r.run, r.outcome, r.started_at, r.finished_at, r.requests, r.retries, r.added, r.changed, r.removed, r.unchanged, r.root, r.error_code, r.worker, r.published_at from tidemark.runs r join tidemark.cells c on c.id = r.cell_id);