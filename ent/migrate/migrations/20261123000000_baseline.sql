-- +goose Up
-- create "audit" table
CREATE TABLE "audit" ("id" uuid NOT NULL, "at" timestamptz NOT NULL, "actor" character varying NOT NULL, "action" character varying NOT NULL, "subject" character varying NOT NULL, "reason" text NOT NULL DEFAULT '', "idempotency_key" character varying NOT NULL DEFAULT '', "before" jsonb NULL, "after" jsonb NULL, PRIMARY KEY ("id"));
-- create index "audit_once" to table: "audit"
CREATE UNIQUE INDEX "audit_once" ON "audit" ("actor", "action", "subject", "idempotency_key") WHERE ((idempotency_key)::text <> ''::text);
-- create index "audit_reads" to table: "audit"
CREATE INDEX "audit_reads" ON "audit" ("at") WHERE ((before IS NULL) AND (after IS NULL) AND (reason = ''::text) AND ((idempotency_key)::text = ''::text));
-- create index "audit_subject_at" to table: "audit"
CREATE INDEX "audit_subject_at" ON "audit" ("subject", "at");
-- create "card_links" table
CREATE TABLE "card_links" ("id" uuid NOT NULL, "card_id" uuid NOT NULL, "owner" character varying NOT NULL, "token_hash" bytea NOT NULL, "expires_at" timestamptz NOT NULL, "opened_at" timestamptz NULL, "unlock_hash" bytea NULL, "unlock_before" timestamptz NULL, "unlocked_at" timestamptz NULL, PRIMARY KEY ("id"));
-- create index "card_links_token_hash_key" to table: "card_links"
CREATE UNIQUE INDEX "card_links_token_hash_key" ON "card_links" ("token_hash");
-- create index "card_links_unlock_hash_key" to table: "card_links"
CREATE UNIQUE INDEX "card_links_unlock_hash_key" ON "card_links" ("unlock_hash");
-- create index "cardlink_expires_at" to table: "card_links"
CREATE INDEX "cardlink_expires_at" ON "card_links" ("expires_at");
-- create "cards" table
CREATE TABLE "cards" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "status" character varying NOT NULL, "provider" character varying NOT NULL, "programme" character varying NOT NULL DEFAULT '', "holder" character varying NOT NULL DEFAULT '', "reference" uuid NOT NULL, "load_usd_cents" bigint NOT NULL DEFAULT 2500, "account" character varying NOT NULL DEFAULT '', "last4" character varying NOT NULL DEFAULT '', "owner_frozen" boolean NOT NULL DEFAULT false, "moving_order" character varying NOT NULL DEFAULT '', "moving_job" uuid NULL, "moving_reference" uuid NULL, "moving_target_usd_cents" bigint NOT NULL DEFAULT 0, "changing" uuid NULL, "changing_until" timestamptz NULL, "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "cards_status" CHECK ((status)::text = ANY ((ARRAY['PENDING'::character varying, 'ACTIVE'::character varying, 'FROZEN'::character varying, 'CLOSED'::character varying, 'FAILED'::character varying])::text[])));
-- create index "card_order_id_owner_created_at" to table: "cards"
CREATE INDEX "card_order_id_owner_created_at" ON "cards" ("order_id", "owner", "created_at");
-- create index "card_owner_created_at" to table: "cards"
CREATE INDEX "card_owner_created_at" ON "cards" ("owner", "created_at");
-- create index "cards_account" to table: "cards"
CREATE INDEX "cards_account" ON "cards" ("account", "provider") WHERE ((account)::text <> ''::text);
-- create index "cards_live" to table: "cards"
CREATE UNIQUE INDEX "cards_live" ON "cards" ("owner") WHERE (((status)::text <> 'CLOSED'::text) AND ((status)::text <> 'FAILED'::text));
-- create index "cards_order" to table: "cards"
CREATE UNIQUE INDEX "cards_order" ON "cards" ("order_id", "owner") WHERE ((status)::text <> 'FAILED'::text);
-- create index "cards_reference" to table: "cards"
CREATE UNIQUE INDEX "cards_reference" ON "cards" ("reference", "owner");
-- create "chain_watermarks" table
CREATE TABLE "chain_watermarks" ("id" uuid NOT NULL, "server" character varying NOT NULL, "heartbeat" bigint NOT NULL DEFAULT 0, "last_block" bigint NOT NULL DEFAULT 0, "created_at" timestamptz NOT NULL, "seen_at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create "challenges" table
CREATE TABLE "challenges" ("id" uuid NOT NULL, "purpose" character varying NOT NULL, "wallet" character varying NOT NULL, "scheme" character varying NOT NULL, "message" text NOT NULL, "nonce" character varying NOT NULL, "card_id" uuid NULL, "session_id" uuid NULL, "recipient_key" bytea NULL, "source" character varying NOT NULL DEFAULT '', "issued_at" timestamptz NOT NULL, "expires_at" timestamptz NOT NULL, "consumed_at" timestamptz NULL, PRIMARY KEY ("id"));
-- create index "challenge_expires_at" to table: "challenges"
CREATE INDEX "challenge_expires_at" ON "challenges" ("expires_at");
-- create index "challenge_wallet_purpose_expires_at" to table: "challenges"
CREATE INDEX "challenge_wallet_purpose_expires_at" ON "challenges" ("wallet", "purpose", "expires_at");
-- create "esim_plans" table
CREATE TABLE "esim_plans" ("id" character varying NOT NULL, "provider" character varying NOT NULL, "code" character varying NOT NULL, "name" character varying NOT NULL, "type" character varying NOT NULL, "countries" jsonb NOT NULL, "data_mb" bigint NOT NULL, "unlimited" boolean NOT NULL DEFAULT false, "fair_use" character varying NOT NULL DEFAULT '', "validity_days" bigint NOT NULL, "cost_micros" bigint NOT NULL, "price_usd_cents" bigint NOT NULL, "live" boolean NOT NULL, "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "esim_plans_price" CHECK ((price_usd_cents >= 1) AND (price_usd_cents <= 25000)), CONSTRAINT "esim_plans_terms" CHECK ((data_mb >= 0) AND ((data_mb > 0) <> unlimited) AND (validity_days > 0) AND (cost_micros > 0)), CONSTRAINT "esim_plans_type" CHECK ((type)::text = ANY ((ARRAY['country'::character varying, 'region'::character varying])::text[])));
-- create index "esim_plans_code" to table: "esim_plans"
CREATE UNIQUE INDEX "esim_plans_code" ON "esim_plans" ("provider", "code");
-- create "esim_profiles" table
CREATE TABLE "esim_profiles" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "plan_id" character varying NOT NULL, "provider" character varying NOT NULL, "status" character varying NOT NULL, "reference" uuid NOT NULL, "account" character varying NOT NULL DEFAULT '', "cost_micros" bigint NOT NULL DEFAULT 0, "sealed_key" character varying NOT NULL DEFAULT '', "sealed" bytea NULL, "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "esim_profiles_cost" CHECK (cost_micros >= 0), CONSTRAINT "esim_profiles_sealed" CHECK (((status)::text = 'ready'::text) = ((sealed IS NOT NULL) AND ((sealed_key)::text <> ''::text))), CONSTRAINT "esim_profiles_status" CHECK ((status)::text = ANY ((ARRAY['ordered'::character varying, 'ready'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[])));
-- create index "esim_profiles_reference" to table: "esim_profiles"
CREATE UNIQUE INDEX "esim_profiles_reference" ON "esim_profiles" ("reference", "owner");
-- create index "esimprofile_order_id_owner_created_at" to table: "esim_profiles"
CREATE INDEX "esimprofile_order_id_owner_created_at" ON "esim_profiles" ("order_id", "owner", "created_at");
-- create index "esimprofile_sealed_key" to table: "esim_profiles"
CREATE INDEX "esimprofile_sealed_key" ON "esim_profiles" ("sealed_key");
-- create "esim_syncs" table
CREATE TABLE "esim_syncs" ("id" character varying NOT NULL, "synced_at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create "esim_tokens" table
CREATE TABLE "esim_tokens" ("id" character varying NOT NULL, "owner" character varying NOT NULL, "version" bigint NOT NULL, "expires_at" timestamptz NOT NULL, PRIMARY KEY ("id", "owner"));
-- create "esim_topups" table
CREATE TABLE "esim_topups" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "profile_id" uuid NOT NULL, "plan_id" character varying NOT NULL, "provider" character varying NOT NULL, "status" character varying NOT NULL, "reference" uuid NOT NULL, "account" character varying NOT NULL DEFAULT '', "cost_micros" bigint NOT NULL DEFAULT 0, "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "esim_topups_cost" CHECK (cost_micros >= 0), CONSTRAINT "esim_topups_status" CHECK ((status)::text = ANY ((ARRAY['ordered'::character varying, 'ready'::character varying, 'failed'::character varying])::text[])));
-- create index "esim_topups_reference" to table: "esim_topups"
CREATE UNIQUE INDEX "esim_topups_reference" ON "esim_topups" ("reference", "owner");
-- create index "esimtopup_order_id_owner_created_at" to table: "esim_topups"
CREATE INDEX "esimtopup_order_id_owner_created_at" ON "esim_topups" ("order_id", "owner", "created_at");
-- create index "esimtopup_profile_id_owner" to table: "esim_topups"
CREATE INDEX "esimtopup_profile_id_owner" ON "esim_topups" ("profile_id", "owner");
-- create "event_days" table
CREATE TABLE "event_days" ("id" uuid NOT NULL, "day" timestamptz NOT NULL, "subject" character varying NOT NULL, "value" character varying NOT NULL, "events" bigint NOT NULL, "visitors" bytea NOT NULL, PRIMARY KEY ("id"));
-- create index "event_days_count" to table: "event_days"
CREATE UNIQUE INDEX "event_days_count" ON "event_days" ("day", "subject", "value");
-- create "events" table
CREATE TABLE "events" ("id" uuid NOT NULL, "name" character varying NOT NULL, "visitor" bytea NOT NULL, "path" character varying NOT NULL DEFAULT '', "properties" jsonb NOT NULL, "at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create index "event_at" to table: "events"
CREATE INDEX "event_at" ON "events" ("at");
-- create "findings" table
CREATE TABLE "findings" ("id" bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY, "reconciliation_id" character varying NOT NULL, "unit" character varying NOT NULL, "code" character varying NOT NULL, "subject" character varying NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "product" character varying NOT NULL, "detail" text NOT NULL, "evidence" text NOT NULL, "size" bigint NOT NULL, "blocks" boolean NOT NULL, "first_seen" timestamptz NOT NULL, "last_seen" timestamptz NOT NULL, "closed_at" timestamptz NULL, "resolved_at" timestamptz NULL, "resolution" character varying NOT NULL DEFAULT '', "resolved_by" character varying NOT NULL DEFAULT '', "reason" text NOT NULL DEFAULT '', PRIMARY KEY ("id"));
-- create index "findings_blocking" to table: "findings"
CREATE INDEX "findings_blocking" ON "findings" ("reconciliation_id", "owner") WHERE (blocks AND (closed_at IS NULL) AND (resolved_at IS NULL));
-- create index "findings_closed" to table: "findings"
CREATE INDEX "findings_closed" ON "findings" ("reconciliation_id", "closed_at") WHERE (closed_at IS NOT NULL);
-- create index "findings_difference" to table: "findings"
CREATE UNIQUE INDEX "findings_difference" ON "findings" ("reconciliation_id", "unit", "code", "subject");
-- create index "findings_listed" to table: "findings"
CREATE INDEX "findings_listed" ON "findings" ("reconciliation_id", "id") WHERE (closed_at IS NULL);
-- create index "findings_present" to table: "findings"
CREATE INDEX "findings_present" ON "findings" ("reconciliation_id", "unit") WHERE (closed_at IS NULL);
-- create "issuer_lines" table
CREATE TABLE "issuer_lines" ("id" character varying NOT NULL, "provider" character varying NOT NULL, "reference" uuid NOT NULL, "account" character varying NOT NULL, "direction" character varying NOT NULL, "state" character varying NOT NULL, "amount_usd_cents" bigint NOT NULL, "balance_usd_cents" bigint NOT NULL DEFAULT 0, "order_id" character varying NOT NULL DEFAULT '', "spent_usd_cents" bigint NOT NULL DEFAULT 0, "epoch" bigint NOT NULL, "pending" boolean NOT NULL DEFAULT true, "changed_at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create index "issuer_lines_order" to table: "issuer_lines"
CREATE INDEX "issuer_lines_order" ON "issuer_lines" ("order_id");
-- create index "issuer_lines_pending" to table: "issuer_lines"
CREATE INDEX "issuer_lines_pending" ON "issuer_lines" ("id") WHERE pending;
-- create index "issuer_lines_reference" to table: "issuer_lines"
CREATE INDEX "issuer_lines_reference" ON "issuer_lines" ("reference");
-- create index "issuer_lines_spent" to table: "issuer_lines"
CREATE INDEX "issuer_lines_spent" ON "issuer_lines" ("id") WHERE (spent_usd_cents > 0);
-- create "jobs" table
CREATE TABLE "jobs" ("id" uuid NOT NULL, "kind" character varying NOT NULL, "class" character varying NOT NULL DEFAULT 'maintain', "unique_key" character varying NOT NULL, "owner" character varying NOT NULL DEFAULT '', "payload" jsonb NOT NULL, "traceparent" character varying NOT NULL DEFAULT '', "status" character varying NOT NULL DEFAULT 'queued', "attempt" bigint NOT NULL DEFAULT 0, "uncounted_attempts" bigint NOT NULL DEFAULT 0, "max_attempts" bigint NOT NULL, "version" bigint NOT NULL DEFAULT 0, "step" character varying NOT NULL DEFAULT '', "step_at" timestamptz NULL, "run_at" timestamptz NOT NULL, "created_at" timestamptz NOT NULL, "finished_at" timestamptz NULL, "last_error" text NOT NULL DEFAULT '', "lease_owner" character varying NULL, "lease_until" timestamptz NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "jobs_class" CHECK ((class)::text = ANY ((ARRAY['settle'::character varying, 'deliver'::character varying, 'maintain'::character varying])::text[])), CONSTRAINT "jobs_lease" CHECK (((status)::text = 'processing'::text) = ((lease_owner IS NOT NULL) AND (lease_until IS NOT NULL))), CONSTRAINT "jobs_max_attempts" CHECK (max_attempts > 0), CONSTRAINT "jobs_status" CHECK ((status)::text = ANY ((ARRAY['queued'::character varying, 'processing'::character varying, 'succeeded'::character varying, 'failed'::character varying, 'operator_review'::character varying])::text[])));
-- create index "jobs_due" to table: "jobs"
CREATE INDEX "jobs_due" ON "jobs" ("class", "run_at") WHERE ((status)::text = 'queued'::text);
-- create index "jobs_finished" to table: "jobs"
CREATE INDEX "jobs_finished" ON "jobs" ("kind", "finished_at") WHERE ((status)::text = 'succeeded'::text);
-- create index "jobs_leased" to table: "jobs"
CREATE INDEX "jobs_leased" ON "jobs" ("lease_until") WHERE ((status)::text = 'processing'::text);
-- create index "jobs_open" to table: "jobs"
CREATE INDEX "jobs_open" ON "jobs" ("kind", "status", "created_at") WHERE ((status)::text <> 'succeeded'::text);
-- create index "jobs_unique" to table: "jobs"
CREATE UNIQUE INDEX "jobs_unique" ON "jobs" ("kind", "unique_key", "owner");
-- create "kill_switches" table
CREATE TABLE "kill_switches" ("id" character varying NOT NULL, "paused" boolean NOT NULL, "reason" text NOT NULL, "actor" character varying NOT NULL, "changed_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "kill_switches_product" CHECK (((id)::text ~ '^[a-z][a-z_]{0,31}$'::text) OR ((id)::text ~ '^provider\.[a-z][a-z0-9_-]{0,31}$'::text)));
-- create "ledger_entries" table
CREATE TABLE "ledger_entries" ("id" bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY, "posting_id" character varying NOT NULL, "owner" character varying NOT NULL, "account" character varying NOT NULL, "amount" bigint NOT NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "ledger_entries_amount" CHECK (amount <> 0));
-- create index "ledger_entries_card" to table: "ledger_entries"
CREATE INDEX "ledger_entries_card" ON "ledger_entries" ("account") WHERE ((account)::text ~~ 'card:%'::text);
-- create index "ledger_entries_line" to table: "ledger_entries"
CREATE UNIQUE INDEX "ledger_entries_line" ON "ledger_entries" ("posting_id", "owner", "account");
-- create "ledger_postings" table
CREATE TABLE "ledger_postings" ("id" character varying NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "kind" character varying NOT NULL, "at" timestamptz NOT NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "ledger_postings_kind" CHECK ((kind)::text = ANY ((ARRAY['settled'::character varying, 'loaded'::character varying, 'load_fee'::character varying, 'fee_withdrawn'::character varying, 'fee_kept'::character varying, 'fee_owed'::character varying, 'fee_collected'::character varying, 'fee_written_off'::character varying, 'remainder_withdrawn'::character varying, 'remainder_returned'::character varying, 'sold'::character varying, 'supplied'::character varying, 'cancelled'::character varying, 'refunded'::character varying, 'unmatched'::character varying, 'matched'::character varying, 'resolved'::character varying])::text[])));
-- create index "ledger_postings_at" to table: "ledger_postings"
CREATE INDEX "ledger_postings_at" ON "ledger_postings" USING brin ("at");
-- create index "ledger_postings_order" to table: "ledger_postings"
CREATE INDEX "ledger_postings_order" ON "ledger_postings" ("order_id", "owner", "id");
-- create "locks" table
CREATE TABLE "locks" ("id" character varying NOT NULL, PRIMARY KEY ("id"));
-- create "orders" table
CREATE TABLE "orders" ("id" character varying NOT NULL, "operation_id" uuid NOT NULL, "kind" character varying NOT NULL, "status" character varying NOT NULL, "owner" character varying NOT NULL, "idempotency_key" character varying NOT NULL, "fingerprint" bytea NOT NULL, "price_usd_cents" bigint NOT NULL, "item" jsonb NOT NULL, "resource" character varying NOT NULL DEFAULT '', "version" bigint NOT NULL, "delivery_attempt" bigint NOT NULL DEFAULT 1, "reference" uuid NULL, "refund_reason" text NOT NULL DEFAULT '', "adopted_reference" uuid NULL, "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, "expires_at" timestamptz NULL, "request_id" character varying NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "orders_kind" CHECK ((kind)::text ~ '^[a-z][a-z_]{0,31}$'::text), CONSTRAINT "orders_price" CHECK (price_usd_cents > 0), CONSTRAINT "orders_status" CHECK ((status)::text = ANY ((ARRAY['payment_required'::character varying, 'settling'::character varying, 'settled'::character varying, 'provisioning'::character varying, 'fulfilled'::character varying, 'expired'::character varying, 'refund_pending'::character varying, 'refunded'::character varying, 'operator_review'::character varying])::text[])));
-- create index "order_owner_id" to table: "orders"
CREATE INDEX "order_owner_id" ON "orders" ("owner", "id");
-- create index "orders_adopted" to table: "orders"
CREATE UNIQUE INDEX "orders_adopted" ON "orders" ("adopted_reference", "owner") WHERE (adopted_reference IS NOT NULL);
-- create index "orders_changed" to table: "orders"
CREATE INDEX "orders_changed" ON "orders" ("updated_at");
-- create index "orders_expired" to table: "orders"
CREATE INDEX "orders_expired" ON "orders" ("updated_at") WHERE ((status)::text = 'expired'::text);
-- create index "orders_open" to table: "orders"
CREATE INDEX "orders_open" ON "orders" ("status", "updated_at") WHERE ((status)::text <> 'fulfilled'::text);
-- create index "orders_purchase" to table: "orders"
CREATE UNIQUE INDEX "orders_purchase" ON "orders" ("kind", "owner", "idempotency_key");
-- create index "orders_request" to table: "orders"
CREATE INDEX "orders_request" ON "orders" ("request_id") WHERE (request_id IS NOT NULL);
-- create index "orders_unpaid" to table: "orders"
CREATE INDEX "orders_unpaid" ON "orders" ("expires_at") WHERE ((status)::text = 'payment_required'::text);
-- create "payments" table
CREATE TABLE "payments" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "status" character varying NOT NULL, "network" character varying NOT NULL, "asset" character varying NOT NULL, "pay_to" character varying NOT NULL, "value" bigint NOT NULL, "valid_after" bigint NOT NULL, "valid_before" bigint NOT NULL, "nonce" character varying NOT NULL, "signature" bytea NOT NULL, "transaction" character varying NULL, "block" bigint NULL, "block_hash" character varying NULL, "log_index" bigint NULL, "settled_at" timestamptz NULL, "dead_reason" character varying NOT NULL DEFAULT '', "arrived_at" timestamptz NULL, "created_at" timestamptz NOT NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "payments_proof" CHECK (((status)::text = 'paid'::text) = ((transaction IS NOT NULL) AND (log_index IS NOT NULL) AND (settled_at IS NOT NULL))), CONSTRAINT "payments_status" CHECK ((status)::text = ANY ((ARRAY['claimed'::character varying, 'paid'::character varying, 'dead'::character varying])::text[])), CONSTRAINT "payments_value" CHECK (value > 0));
-- create index "payment_order_id_owner_created_at" to table: "payments"
CREATE INDEX "payment_order_id_owner_created_at" ON "payments" ("order_id", "owner", "created_at");
-- create index "payments_authorization" to table: "payments"
CREATE UNIQUE INDEX "payments_authorization" ON "payments" ("network", "asset", "owner", "nonce");
-- create index "payments_live" to table: "payments"
CREATE UNIQUE INDEX "payments_live" ON "payments" ("order_id", "owner") WHERE ((status)::text <> 'dead'::text);
-- create index "payments_transfer" to table: "payments"
CREATE UNIQUE INDEX "payments_transfer" ON "payments" ("transaction", "log_index", "owner");
-- create index "payments_undecided" to table: "payments"
CREATE INDEX "payments_undecided" ON "payments" ("owner") WHERE ((status)::text = 'claimed'::text);
-- create "progress" table
CREATE TABLE "progress" ("id" character varying NOT NULL, "at" timestamptz NOT NULL, "place" character varying NOT NULL DEFAULT '', PRIMARY KEY ("id"));
-- create "rate_limits" table: counts are worth no log, and begin anew after a crash
CREATE UNLOGGED TABLE "rate_limits" ("id" character varying NOT NULL, "resets_at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create "screened_addresses" table
CREATE TABLE "screened_addresses" ("id" uuid NOT NULL, "list" character varying NOT NULL, "address" character varying NOT NULL, PRIMARY KEY ("id"));
-- create index "screenedaddress_address_list" to table: "screened_addresses"
CREATE UNIQUE INDEX "screenedaddress_address_list" ON "screened_addresses" ("address", "list");
-- create "screening_lists" table
CREATE TABLE "screening_lists" ("id" character varying NOT NULL, "digest" bytea NOT NULL, "addresses" bigint NOT NULL, "read_at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create "reconciliation_runs" table
CREATE TABLE "reconciliation_runs" ("id" bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY, "reconciliation_id" character varying NOT NULL, "began_at" timestamptz NOT NULL, "ended_at" timestamptz NOT NULL, "outcome" character varying NOT NULL, "unread" character varying NOT NULL DEFAULT '', "first_block" bigint NOT NULL DEFAULT 0, "last_block" bigint NOT NULL DEFAULT 0, "orders" bigint NOT NULL DEFAULT 0, "payments" bigint NOT NULL DEFAULT 0, "transfers" bigint NOT NULL DEFAULT 0, "postings" bigint NOT NULL DEFAULT 0, "cards" bigint NOT NULL DEFAULT 0, "movements" bigint NOT NULL DEFAULT 0, "spent_usd_cents" bigint NOT NULL DEFAULT 0, "opened" bigint NOT NULL DEFAULT 0, "closed" bigint NOT NULL DEFAULT 0, "open" bigint NOT NULL DEFAULT 0, "blocking" bigint NOT NULL DEFAULT 0, "resolved" bigint NOT NULL DEFAULT 0, "sums" jsonb NULL, "balances" jsonb NULL, PRIMARY KEY ("id"), CONSTRAINT "reconciliation_runs_outcome" CHECK ((outcome)::text = ANY ((ARRAY['agreed'::character varying, 'differed'::character varying, 'incomplete'::character varying, 'failed'::character varying])::text[])));
-- create index "reconciliation_runs_age" to table: "reconciliation_runs"
CREATE INDEX "reconciliation_runs_age" ON "reconciliation_runs" ("ended_at");
-- create index "reconciliation_runs_listed" to table: "reconciliation_runs"
CREATE INDEX "reconciliation_runs_listed" ON "reconciliation_runs" ("reconciliation_id", "id");
-- create "reconciliations" table
CREATE TABLE "reconciliations" ("id" character varying NOT NULL, "first_block" bigint NOT NULL, "next_block" bigint NOT NULL, "at" timestamptz NULL, "blocks" boolean NOT NULL DEFAULT false, "report" jsonb NULL, "progress" jsonb NULL, PRIMARY KEY ("id"));
-- create "refunds" table
CREATE TABLE "refunds" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "status" character varying NOT NULL, "network" character varying NOT NULL, "asset" character varying NOT NULL, "treasury" character varying NOT NULL, "value" bigint NOT NULL, "nonce" character varying NOT NULL, "valid_before" bigint NOT NULL, "signature" bytea NOT NULL, "transaction" character varying NULL, "block" bigint NULL, "block_hash" character varying NULL, "log_index" bigint NULL, "settled_at" timestamptz NULL, "created_at" timestamptz NOT NULL, "signed_at" timestamptz NOT NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "refunds_proof" CHECK (((status)::text = 'paid'::text) = ((transaction IS NOT NULL) AND (block IS NOT NULL) AND (block_hash IS NOT NULL) AND (log_index IS NOT NULL) AND (settled_at IS NOT NULL))), CONSTRAINT "refunds_status" CHECK ((status)::text = ANY ((ARRAY['signed'::character varying, 'paid'::character varying, 'dead'::character varying])::text[])), CONSTRAINT "refunds_value" CHECK (value > 0));
-- create index "refunds_authorization" to table: "refunds"
CREATE UNIQUE INDEX "refunds_authorization" ON "refunds" ("network", "asset", "treasury", "nonce", "owner");
-- create index "refunds_order" to table: "refunds"
CREATE UNIQUE INDEX "refunds_order" ON "refunds" ("order_id", "owner");
-- create index "refunds_transfer" to table: "refunds"
CREATE UNIQUE INDEX "refunds_transfer" ON "refunds" ("transaction", "log_index", "owner");
-- create "reported_transfers" table
CREATE TABLE "reported_transfers" ("id" bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY, "network" character varying NOT NULL, "asset" character varying NOT NULL, "pay_to" character varying NOT NULL, "payer" character varying NOT NULL, "value" bigint NOT NULL, "nonce" character varying NOT NULL, "valid_after" bigint NOT NULL, "valid_before" bigint NOT NULL, "transaction" character varying NOT NULL, "log_index" bigint NOT NULL, "block" bigint NOT NULL, "block_hash" character varying NOT NULL, "settled_at" timestamptz NOT NULL, "seen_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "reported_transfers_value" CHECK (value > 0));
-- create index "reported_transfers_authorization" to table: "reported_transfers"
CREATE UNIQUE INDEX "reported_transfers_authorization" ON "reported_transfers" ("network", "asset", "payer", "nonce");
-- create "reservations" table
CREATE TABLE "reservations" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "resource" character varying NOT NULL, "units" bigint NOT NULL, "created_at" timestamptz NOT NULL, "settled_at" timestamptz NULL, "released_at" timestamptz NULL, "suspended_at" timestamptz NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "reservations_units" CHECK (units > 0));
-- create index "reservations_live" to table: "reservations"
CREATE UNIQUE INDEX "reservations_live" ON "reservations" ("resource", "order_id", "owner") WHERE (released_at IS NULL);
-- create index "reservations_order" to table: "reservations"
CREATE INDEX "reservations_order" ON "reservations" ("order_id", "owner") WHERE (released_at IS NULL);
-- create index "reservations_released" to table: "reservations"
CREATE INDEX "reservations_released" ON "reservations" ("released_at", "resource") WHERE (released_at IS NOT NULL);
-- create index "reservations_suspended" to table: "reservations"
CREATE INDEX "reservations_suspended" ON "reservations" ("order_id", "owner") WHERE (suspended_at IS NOT NULL);
-- create "sessions" table
CREATE TABLE "sessions" ("id" uuid NOT NULL, "wallet" character varying NOT NULL, "scopes" jsonb NOT NULL, "token_hash" bytea NOT NULL, "issued_at" timestamptz NOT NULL, "expires_at" timestamptz NOT NULL, "revoked_at" timestamptz NULL, PRIMARY KEY ("id"));
-- create index "session_expires_at" to table: "sessions"
CREATE INDEX "session_expires_at" ON "sessions" ("expires_at");
-- create index "sessions_token_hash_key" to table: "sessions"
CREATE UNIQUE INDEX "sessions_token_hash_key" ON "sessions" ("token_hash");
-- create "supplier_orders" table
CREATE TABLE "supplier_orders" ("id" uuid NOT NULL, "provider" character varying NOT NULL, "reference" uuid NOT NULL, "owner" character varying NOT NULL, "code" character varying NOT NULL, "cost_micros" bigint NOT NULL, "sent_at" timestamptz NOT NULL, "account" character varying NOT NULL DEFAULT '', "onto" character varying NOT NULL DEFAULT '', PRIMARY KEY ("id"), CONSTRAINT "supplier_orders_cost" CHECK (cost_micros >= 0));
-- create index "supplier_orders_account" to table: "supplier_orders"
CREATE UNIQUE INDEX "supplier_orders_account" ON "supplier_orders" ("provider", "account") WHERE ((account)::text <> ''::text);
-- create index "supplier_orders_reference" to table: "supplier_orders"
CREATE UNIQUE INDEX "supplier_orders_reference" ON "supplier_orders" ("provider", "reference");
-- create index "supplier_orders_sent" to table: "supplier_orders"
CREATE INDEX "supplier_orders_sent" ON "supplier_orders" ("provider", "code", "sent_at");
-- create "timeline" table
CREATE TABLE "timeline" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "version" bigint NOT NULL, "at" timestamptz NOT NULL, "from_status" character varying NOT NULL, "to_status" character varying NOT NULL, "actor" character varying NOT NULL, "reason" text NOT NULL, "evidence" jsonb NULL, "request_id" character varying NULL, PRIMARY KEY ("id", "owner"));
-- create index "timeline_move" to table: "timeline"
CREATE UNIQUE INDEX "timeline_move" ON "timeline" ("order_id", "owner", "version");
-- create index "timeline_request" to table: "timeline"
CREATE INDEX "timeline_request" ON "timeline" ("request_id") WHERE (request_id IS NOT NULL);
-- create "transactions" table
CREATE TABLE "transactions" ("id" uuid NOT NULL, "relayer" character varying NOT NULL, "nonce" bigint NOT NULL, "variants" jsonb NOT NULL, "status" character varying NOT NULL, "created_at" timestamptz NOT NULL, "spent_wei" bigint NOT NULL DEFAULT 0, PRIMARY KEY ("id"), CONSTRAINT "transactions_nonce" CHECK (nonce >= 0), CONSTRAINT "transactions_spent" CHECK (spent_wei >= 0), CONSTRAINT "transactions_status" CHECK ((status)::text = ANY ((ARRAY['open'::character varying, 'reverted'::character varying, 'closed'::character varying])::text[])));
-- create index "transactions_age" to table: "transactions"
CREATE INDEX "transactions_age" ON "transactions" ("status", "created_at");
-- create index "transactions_nonce" to table: "transactions"
CREATE UNIQUE INDEX "transactions_nonce" ON "transactions" ("relayer", "nonce");
-- create "transaction_members" table
CREATE TABLE "transaction_members" ("id" uuid NOT NULL, "transaction_id" uuid NOT NULL, "payment_id" uuid NOT NULL, "place" bigint NOT NULL, "status" character varying NOT NULL, "created_at" timestamptz NOT NULL, "lost_wei" bigint NOT NULL DEFAULT 0, PRIMARY KEY ("id"), CONSTRAINT "transaction_members_lost" CHECK (lost_wei >= 0), CONSTRAINT "transaction_members_status" CHECK ((status)::text = ANY ((ARRAY['open'::character varying, 'reverted'::character varying, 'closed'::character varying])::text[])));
-- create index "transaction_members_open" to table: "transaction_members"
CREATE UNIQUE INDEX "transaction_members_open" ON "transaction_members" ("payment_id") WHERE ((status)::text = 'open'::text);
-- create index "transaction_members_place" to table: "transaction_members"
CREATE UNIQUE INDEX "transaction_members_place" ON "transaction_members" ("transaction_id", "place");
-- create index "transaction_members_reverted" to table: "transaction_members"
CREATE INDEX "transaction_members_reverted" ON "transaction_members" ("created_at") WHERE ((status)::text = 'reverted'::text);
-- create index "transactionmember_payment_id_created_at" to table: "transaction_members"
CREATE INDEX "transactionmember_payment_id_created_at" ON "transaction_members" ("payment_id", "created_at");
-- create "transfers" table
CREATE TABLE "transfers" ("id" bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY, "asset" character varying NOT NULL, "pay_to" character varying NOT NULL, "transaction" character varying NOT NULL, "log_index" bigint NOT NULL, "block" bigint NOT NULL, "sender" character varying NOT NULL, "value" bigint NOT NULL, "nonce" character varying NOT NULL DEFAULT '', "seen_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "transfers_value" CHECK (value > 0));
-- create index "transfers_authorization" to table: "transfers"
CREATE INDEX "transfers_authorization" ON "transfers" ("sender", "nonce") WHERE ((nonce)::text <> ''::text);
-- create index "transfers_place" to table: "transfers"
CREATE UNIQUE INDEX "transfers_place" ON "transfers" ("transaction", "log_index");
-- create index "transfers_sender" to table: "transfers"
CREATE INDEX "transfers_sender" ON "transfers" ("sender", "value") WHERE ((nonce)::text <> ''::text);
-- create "transfer_resolutions" table
CREATE TABLE "transfer_resolutions" ("id" character varying NOT NULL, "resolution" character varying NOT NULL, "reason" text NOT NULL, "actor" character varying NOT NULL, "at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "transfer_resolutions_resolution" CHECK ((resolution)::text = ANY ((ARRAY['refunded_by_hand'::character varying, 'donation'::character varying, 'known'::character varying])::text[])));
-- create "workers" table
CREATE TABLE "workers" ("id" character varying NOT NULL, "kinds" jsonb NOT NULL, "live_until" timestamptz NOT NULL, PRIMARY KEY ("id"));

-- What follows is written by hand: ent cannot express it.

-- Every job is updated several times in its life: leave room for that on the page, and vacuum early. Rate limits are
-- updated in place too.
ALTER TABLE "jobs" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE "rate_limits" SET (fillfactor = 70);

-- Rows of these tables are only inserted.
-- +goose StatementBegin
CREATE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
-- A read of an operator, which has no reason, no key and no change, may be deleted after a day. Every other row stays.
-- +goose StatementBegin
CREATE FUNCTION forbid_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' AND OLD.at < now() - interval '1 day' AND OLD.before IS NULL AND OLD.after IS NULL
		AND OLD.reason = '' AND OLD.idempotency_key = '' THEN
		RETURN OLD;
	END IF;
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
-- An order that expired unpaid has touched no money: it and its line in the timeline may be deleted. Of an order that is
-- final, a line may be deleted after a day unless it is the last one or an operator's. Every other line stays.
-- +goose StatementBegin
CREATE FUNCTION forbid_change_of_timeline() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' AND OLD.to_status = 'expired' THEN
		RETURN OLD;
	END IF;
	IF TG_OP = 'DELETE' AND OLD.at < now() - interval '1 day' AND OLD.actor NOT LIKE 'operator:%' AND (
		SELECT status IN ('fulfilled', 'refunded') AND version > OLD.version FROM orders
		WHERE id = OLD.order_id AND owner = OLD.owner LIMIT 1) THEN
		RETURN OLD;
	END IF;
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit
	FOR EACH ROW EXECUTE FUNCTION forbid_change_of_audit();
CREATE TRIGGER audit_keeps_all BEFORE TRUNCATE ON audit
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER timeline_append_only BEFORE UPDATE OR DELETE ON timeline
	FOR EACH ROW EXECUTE FUNCTION forbid_change_of_timeline();
CREATE TRIGGER timeline_keeps_all BEFORE TRUNCATE ON timeline
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER ledger_postings_append_only BEFORE UPDATE OR DELETE ON ledger_postings
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER ledger_postings_keeps_all BEFORE TRUNCATE ON ledger_postings
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE ON ledger_entries
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER ledger_entries_keeps_all BEFORE TRUNCATE ON ledger_entries
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER transfers_append_only BEFORE UPDATE OR DELETE ON transfers
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER transfers_keeps_all BEFORE TRUNCATE ON transfers
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER transfer_resolutions_append_only BEFORE UPDATE OR DELETE ON transfer_resolutions
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER transfer_resolutions_keeps_all BEFORE TRUNCATE ON transfer_resolutions
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();

-- A posting is written whole by one statement, so what the statement adds balances by itself. What was there before
-- did too and is not read: the check costs the same however long the books are.
-- +goose StatementBegin
CREATE FUNCTION require_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	wrong text;
BEGIN
	SELECT posting_id INTO wrong FROM added GROUP BY posting_id HAVING sum(amount) <> 0 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'posting % is not balanced', wrong USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER ledger_entries_balance AFTER INSERT ON ledger_entries
	REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION require_balance();
-- create "webhook_events" table
CREATE TABLE "webhook_events" ("id" uuid NOT NULL, "provider" character varying NOT NULL, "event_id" character varying NOT NULL, "type" character varying NOT NULL, "body" bytea NOT NULL, "received_at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create index "webhook_events_event" to table: "webhook_events"
CREATE UNIQUE INDEX "webhook_events_event" ON "webhook_events" ("provider", "event_id");
-- create index "webhook_events_received" to table: "webhook_events"
CREATE INDEX "webhook_events_received" ON "webhook_events" ("received_at");
-- create "operator_approvals" table
CREATE TABLE "operator_approvals" ("id" uuid NOT NULL, "action" character varying NOT NULL, "subject" character varying NOT NULL, "amount_usd_cents" bigint NOT NULL, "resolution" character varying NOT NULL DEFAULT '', "version" bigint NOT NULL DEFAULT 0, "reason" text NOT NULL, "idempotency_key" character varying NOT NULL, "requested_by" character varying NOT NULL, "minters" jsonb NOT NULL, "requested_at" timestamptz NOT NULL, "expires_at" timestamptz NOT NULL, "status" character varying NOT NULL DEFAULT 'pending', "decided_by" character varying NOT NULL DEFAULT '', "decision_reason" text NOT NULL DEFAULT '', "decided_at" timestamptz NULL, PRIMARY KEY ("id"), CONSTRAINT "operator_approvals_action" CHECK ((action)::text = ANY ((ARRAY['order.refund'::character varying, 'order.fulfill'::character varying, 'transfer.resolve'::character varying, 'card.close'::character varying])::text[])), CONSTRAINT "operator_approvals_second" CHECK (((status)::text <> 'approved'::text) OR (((decided_by)::text <> ''::text) AND ((decided_by)::text <> (requested_by)::text))), CONSTRAINT "operator_approvals_status" CHECK ((status)::text = ANY ((ARRAY['pending'::character varying, 'approved'::character varying, 'rejected'::character varying, 'expired'::character varying])::text[])));
-- create index "operator_approvals_listed" to table: "operator_approvals"
CREATE INDEX "operator_approvals_listed" ON "operator_approvals" ("status", "id");
-- create index "operator_approvals_waiting" to table: "operator_approvals"
CREATE UNIQUE INDEX "operator_approvals_waiting" ON "operator_approvals" ("subject") WHERE ((status)::text = 'pending'::text);
-- create "operator_tokens" table
CREATE TABLE "operator_tokens" ("id" uuid NOT NULL, "name" character varying NOT NULL, "role" character varying NOT NULL, "token_hash" bytea NOT NULL, "minters" jsonb NOT NULL, "minted_at" timestamptz NOT NULL, "expires_at" timestamptz NOT NULL, "last_used_at" timestamptz NULL, "revoked_at" timestamptz NULL, "revoked_by" character varying NOT NULL DEFAULT '', PRIMARY KEY ("id"), CONSTRAINT "operator_tokens_role" CHECK ((role)::text = ANY ((ARRAY['viewer'::character varying, 'support'::character varying, 'treasurer'::character varying, 'admin'::character varying])::text[])));
-- create index "operator_tokens_token_hash_key" to table: "operator_tokens"
CREATE UNIQUE INDEX "operator_tokens_token_hash_key" ON "operator_tokens" ("token_hash");
-- Who minted and who decided stays on record.
CREATE TRIGGER operator_approvals_keep BEFORE DELETE OR TRUNCATE ON operator_approvals
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER operator_tokens_keep BEFORE DELETE OR TRUNCATE ON operator_tokens
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();

-- +goose Down
-- reverse: create index "operator_tokens_token_hash_key" to table: "operator_tokens"
DROP INDEX "operator_tokens_token_hash_key";
-- reverse: create "operator_tokens" table
DROP TABLE "operator_tokens";
-- reverse: create index "operator_approvals_waiting" to table: "operator_approvals"
DROP INDEX "operator_approvals_waiting";
-- reverse: create index "operator_approvals_listed" to table: "operator_approvals"
DROP INDEX "operator_approvals_listed";
-- reverse: create "operator_approvals" table
DROP TABLE "operator_approvals";
-- reverse: create index "transactionmember_payment_id_created_at" to table: "transaction_members"
DROP INDEX "transactionmember_payment_id_created_at";
-- reverse: create index "transaction_members_reverted" to table: "transaction_members"
DROP INDEX "transaction_members_reverted";
-- reverse: create index "transaction_members_place" to table: "transaction_members"
DROP INDEX "transaction_members_place";
-- reverse: create index "transaction_members_open" to table: "transaction_members"
DROP INDEX "transaction_members_open";
-- reverse: create "transaction_members" table
DROP TABLE "transaction_members";
-- reverse: create index "transactions_nonce" to table: "transactions"
DROP INDEX "transactions_nonce";
-- reverse: create index "transactions_age" to table: "transactions"
DROP INDEX "transactions_age";
-- reverse: create "transactions" table
DROP TABLE "transactions";
-- reverse: create index "webhook_events_received" to table: "webhook_events"
DROP INDEX "webhook_events_received";
-- reverse: create index "webhook_events_event" to table: "webhook_events"
DROP INDEX "webhook_events_event";
-- reverse: create "webhook_events" table
DROP TABLE "webhook_events";
-- reverse: create "workers" table
DROP TABLE "workers";
-- reverse: create "transfer_resolutions" table
DROP TABLE "transfer_resolutions";
-- reverse: create index "transfers_sender" to table: "transfers"
DROP INDEX "transfers_sender";
-- reverse: create index "transfers_place" to table: "transfers"
DROP INDEX "transfers_place";
-- reverse: create index "transfers_authorization" to table: "transfers"
DROP INDEX "transfers_authorization";
-- reverse: create "transfers" table
DROP TABLE "transfers";
-- reverse: create index "timeline_request" to table: "timeline"
DROP INDEX "timeline_request";
-- reverse: create index "timeline_move" to table: "timeline"
DROP INDEX "timeline_move";
-- reverse: create "timeline" table
DROP TABLE "timeline";
-- reverse: create index "supplier_orders_sent" to table: "supplier_orders"
DROP INDEX "supplier_orders_sent";
-- reverse: create index "supplier_orders_reference" to table: "supplier_orders"
DROP INDEX "supplier_orders_reference";
-- reverse: create index "supplier_orders_account" to table: "supplier_orders"
DROP INDEX "supplier_orders_account";
-- reverse: create "supplier_orders" table
DROP TABLE "supplier_orders";
-- reverse: create index "sessions_token_hash_key" to table: "sessions"
DROP INDEX "sessions_token_hash_key";
-- reverse: create index "session_expires_at" to table: "sessions"
DROP INDEX "session_expires_at";
-- reverse: create "sessions" table
DROP TABLE "sessions";
-- reverse: create index "reservations_suspended" to table: "reservations"
DROP INDEX "reservations_suspended";
-- reverse: create index "reservations_released" to table: "reservations"
DROP INDEX "reservations_released";
-- reverse: create index "reservations_order" to table: "reservations"
DROP INDEX "reservations_order";
-- reverse: create index "reservations_live" to table: "reservations"
DROP INDEX "reservations_live";
-- reverse: create "reservations" table
DROP TABLE "reservations";
-- reverse: create index "reported_transfers_authorization" to table: "reported_transfers"
DROP INDEX "reported_transfers_authorization";
-- reverse: create "reported_transfers" table
DROP TABLE "reported_transfers";
-- reverse: create index "refunds_transfer" to table: "refunds"
DROP INDEX "refunds_transfer";
-- reverse: create index "refunds_order" to table: "refunds"
DROP INDEX "refunds_order";
-- reverse: create index "refunds_authorization" to table: "refunds"
DROP INDEX "refunds_authorization";
-- reverse: create "refunds" table
DROP TABLE "refunds";
-- reverse: create "reconciliations" table
DROP TABLE "reconciliations";
-- reverse: create index "reconciliation_runs_listed" to table: "reconciliation_runs"
DROP INDEX "reconciliation_runs_listed";
-- reverse: create index "reconciliation_runs_age" to table: "reconciliation_runs"
DROP INDEX "reconciliation_runs_age";
-- reverse: create "reconciliation_runs" table
DROP TABLE "reconciliation_runs";
-- reverse: create "screening_lists" table
DROP TABLE "screening_lists";
-- reverse: create index "screenedaddress_address_list" to table: "screened_addresses"
DROP INDEX "screenedaddress_address_list";
-- reverse: create "screened_addresses" table
DROP TABLE "screened_addresses";
-- reverse: create "rate_limits" table
DROP TABLE "rate_limits";
-- reverse: create "progress" table
DROP TABLE "progress";
-- reverse: create index "payments_undecided" to table: "payments"
DROP INDEX "payments_undecided";
-- reverse: create index "payments_transfer" to table: "payments"
DROP INDEX "payments_transfer";
-- reverse: create index "payments_live" to table: "payments"
DROP INDEX "payments_live";
-- reverse: create index "payments_authorization" to table: "payments"
DROP INDEX "payments_authorization";
-- reverse: create index "payment_order_id_owner_created_at" to table: "payments"
DROP INDEX "payment_order_id_owner_created_at";
-- reverse: create "payments" table
DROP TABLE "payments";
-- reverse: create index "orders_unpaid" to table: "orders"
DROP INDEX "orders_unpaid";
-- reverse: create index "orders_request" to table: "orders"
DROP INDEX "orders_request";
-- reverse: create index "orders_purchase" to table: "orders"
DROP INDEX "orders_purchase";
-- reverse: create index "orders_expired" to table: "orders"
DROP INDEX "orders_expired";
-- reverse: create index "orders_open" to table: "orders"
DROP INDEX "orders_open";
-- reverse: create index "orders_changed" to table: "orders"
DROP INDEX "orders_changed";
-- reverse: create index "orders_adopted" to table: "orders"
DROP INDEX "orders_adopted";
-- reverse: create index "order_owner_id" to table: "orders"
DROP INDEX "order_owner_id";
-- reverse: create "orders" table
DROP TABLE "orders";
-- reverse: create "locks" table
DROP TABLE "locks";
-- reverse: create index "ledger_postings_order" to table: "ledger_postings"
DROP INDEX "ledger_postings_order";
-- reverse: create index "ledger_postings_at" to table: "ledger_postings"
DROP INDEX "ledger_postings_at";
-- reverse: create "ledger_postings" table
DROP TABLE "ledger_postings";
-- reverse: create index "ledger_entries_line" to table: "ledger_entries"
DROP INDEX "ledger_entries_line";
-- reverse: create index "ledger_entries_card" to table: "ledger_entries"
DROP INDEX "ledger_entries_card";
-- reverse: create "ledger_entries" table
DROP TABLE "ledger_entries";
-- reverse: create "kill_switches" table
DROP TABLE "kill_switches";
-- reverse: create index "jobs_unique" to table: "jobs"
DROP INDEX "jobs_unique";
-- reverse: create index "jobs_open" to table: "jobs"
DROP INDEX "jobs_open";
-- reverse: create index "jobs_leased" to table: "jobs"
DROP INDEX "jobs_leased";
-- reverse: create index "jobs_finished" to table: "jobs"
DROP INDEX "jobs_finished";
-- reverse: create index "jobs_due" to table: "jobs"
DROP INDEX "jobs_due";
-- reverse: create "jobs" table
DROP TABLE "jobs";
-- reverse: create index "issuer_lines_spent" to table: "issuer_lines"
DROP INDEX "issuer_lines_spent";
-- reverse: create index "issuer_lines_reference" to table: "issuer_lines"
DROP INDEX "issuer_lines_reference";
-- reverse: create index "issuer_lines_pending" to table: "issuer_lines"
DROP INDEX "issuer_lines_pending";
-- reverse: create index "issuer_lines_order" to table: "issuer_lines"
DROP INDEX "issuer_lines_order";
-- reverse: create "issuer_lines" table
DROP TABLE "issuer_lines";
-- reverse: create index "findings_present" to table: "findings"
DROP INDEX "findings_present";
-- reverse: create index "findings_listed" to table: "findings"
DROP INDEX "findings_listed";
-- reverse: create index "findings_difference" to table: "findings"
DROP INDEX "findings_difference";
-- reverse: create index "findings_closed" to table: "findings"
DROP INDEX "findings_closed";
-- reverse: create index "findings_blocking" to table: "findings"
DROP INDEX "findings_blocking";
-- reverse: create "findings" table
DROP TABLE "findings";
-- reverse: create index "event_at" to table: "events"
DROP INDEX "event_at";
-- reverse: create "events" table
DROP TABLE "events";
-- reverse: create index "event_days_count" to table: "event_days"
DROP INDEX "event_days_count";
-- reverse: create "event_days" table
DROP TABLE "event_days";
-- reverse: create index "esimtopup_profile_id_owner" to table: "esim_topups"
DROP INDEX "esimtopup_profile_id_owner";
-- reverse: create index "esimtopup_order_id_owner_created_at" to table: "esim_topups"
DROP INDEX "esimtopup_order_id_owner_created_at";
-- reverse: create index "esim_topups_reference" to table: "esim_topups"
DROP INDEX "esim_topups_reference";
-- reverse: create "esim_topups" table
DROP TABLE "esim_topups";
-- reverse: create "esim_tokens" table
DROP TABLE "esim_tokens";
-- reverse: create "esim_syncs" table
DROP TABLE "esim_syncs";
-- reverse: create index "esimprofile_sealed_key" to table: "esim_profiles"
DROP INDEX "esimprofile_sealed_key";
-- reverse: create index "esimprofile_order_id_owner_created_at" to table: "esim_profiles"
DROP INDEX "esimprofile_order_id_owner_created_at";
-- reverse: create index "esim_profiles_reference" to table: "esim_profiles"
DROP INDEX "esim_profiles_reference";
-- reverse: create "esim_profiles" table
DROP TABLE "esim_profiles";
-- reverse: create index "esim_plans_code" to table: "esim_plans"
DROP INDEX "esim_plans_code";
-- reverse: create "esim_plans" table
DROP TABLE "esim_plans";
-- reverse: create index "challenge_wallet_purpose_expires_at" to table: "challenges"
DROP INDEX "challenge_wallet_purpose_expires_at";
-- reverse: create index "challenge_expires_at" to table: "challenges"
DROP INDEX "challenge_expires_at";
-- reverse: create "challenges" table
DROP TABLE "challenges";
-- reverse: create "chain_watermarks" table
DROP TABLE "chain_watermarks";
-- reverse: create index "cards_reference" to table: "cards"
DROP INDEX "cards_reference";
-- reverse: create index "cards_order" to table: "cards"
DROP INDEX "cards_order";
-- reverse: create index "cards_live" to table: "cards"
DROP INDEX "cards_live";
-- reverse: create index "cards_account" to table: "cards"
DROP INDEX "cards_account";
-- reverse: create index "card_owner_created_at" to table: "cards"
DROP INDEX "card_owner_created_at";
-- reverse: create index "card_order_id_owner_created_at" to table: "cards"
DROP INDEX "card_order_id_owner_created_at";
-- reverse: create "cards" table
DROP TABLE "cards";
-- reverse: create index "cardlink_expires_at" to table: "card_links"
DROP INDEX "cardlink_expires_at";
-- reverse: create index "card_links_unlock_hash_key" to table: "card_links"
DROP INDEX "card_links_unlock_hash_key";
-- reverse: create index "card_links_token_hash_key" to table: "card_links"
DROP INDEX "card_links_token_hash_key";
-- reverse: create "card_links" table
DROP TABLE "card_links";
-- reverse: create index "audit_subject_at" to table: "audit"
DROP INDEX "audit_subject_at";
-- reverse: create index "audit_reads" to table: "audit"
DROP INDEX "audit_reads";
-- reverse: create index "audit_once" to table: "audit"
DROP INDEX "audit_once";
-- reverse: create "audit" table
DROP TABLE "audit";
DROP FUNCTION require_balance();
DROP FUNCTION forbid_change_of_timeline();
DROP FUNCTION forbid_change_of_audit();
DROP FUNCTION forbid_change();
