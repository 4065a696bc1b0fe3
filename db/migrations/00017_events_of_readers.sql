-- What the earlier migrations of events and service accounts left out. Each statement is a transaction and locks briefly; after
-- an interruption, all run again.

-- +goose NO TRANSACTION

-- +goose Up

ALTER TABLE event_readers ADD COLUMN IF NOT EXISTS recorded_since timestamptz NOT NULL DEFAULT '-infinity';
COMMENT ON COLUMN event_readers.recorded_since IS 'All events from this time on were recorded.';

-- Also for the deletion of all events of an organization, with those of tests.
DROP INDEX CONCURRENTLY IF EXISTS events_organization_position_idx;
CREATE INDEX CONCURRENTLY events_organization_position_idx ON events (organization_id, position);
DROP INDEX CONCURRENTLY IF EXISTS events_organization_idx;

-- For the deliveries of a subject. The condition is another one than that of webhook_deliveries_due_idx, so that the planner cannot take
-- that index, which begins with the same column, and read all pending deliveries.
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_order_idx;
CREATE INDEX CONCURRENTLY webhook_deliveries_order_idx ON webhook_deliveries (endpoint_id, subject, position)
    WHERE state NOT IN ('delivered', 'failed');
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_subject_idx;

-- For the retention: the ids of events that workers report are not in the order of their creation.
DROP INDEX CONCURRENTLY IF EXISTS events_created_at_idx;
CREATE INDEX CONCURRENTLY events_created_at_idx ON events (created_at);

-- The scope webhooks:read shows events, but no link to pay an invoice.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION record_invoice_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF event_wanted(NEW.organization_id) THEN
        PERFORM insert_event(NEW.organization_id, 'invoice.created', NULL, jsonb_build_object('invoiceId', NEW.id, 'number', NEW.number,
            'status', NEW.status, 'currency', NEW.currency, 'totalCents', NEW.total_cents, 'amountDueCents', NEW.amount_due_cents,
            'periodStart', event_time(NEW.period_start), 'periodEnd', event_time(NEW.period_end)));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- A validation in the transaction that adds a constraint keeps the table locked.
ALTER TABLE access_tokens VALIDATE CONSTRAINT access_tokens_subject;
ALTER TABLE access_tokens VALIDATE CONSTRAINT access_tokens_service_account_fkey;
ALTER TABLE audit_events VALIDATE CONSTRAINT audit_events_actor_type_check;
