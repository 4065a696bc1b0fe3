-- Billing: what a subscription costs, what was added to it, and the invoices.

-- +goose Up
UPDATE plans
SET add_ons = '[
    {"slug": "profiles", "name": "Ten profiles",                "limit": "profileLimit", "amount": 10,    "priceCents": 1900},
    {"slug": "members",  "name": "Five members",                "limit": "memberLimit",  "amount": 5,     "priceCents": 900},
    {"slug": "api-rpm",  "name": "600 API requests a minute",   "limit": "apiRpmLimit",  "amount": 600,   "priceCents": 500},
    {"slug": "api-rph",  "name": "20,000 API requests an hour", "limit": "apiRphLimit",  "amount": 20000, "priceCents": 500}]'
WHERE slug IN ('starter', 'team', 'scale');

-- The price is copied like the limits. A subscription with a current period is
-- one that somebody pays for; a plan that costs nothing has none.
ALTER TABLE subscriptions
    ADD COLUMN status                   text        NOT NULL DEFAULT 'active'
        CONSTRAINT subscriptions_status CHECK (status IN ('active', 'past_due', 'canceled')),
    ADD COLUMN price_cents              integer     NOT NULL DEFAULT 0 CHECK (price_cents >= 0),
    ADD COLUMN currency                 text        NOT NULL DEFAULT 'usd' CHECK (currency ~ '^[a-z]{3}$'),
    ADD COLUMN interval                 text        NOT NULL DEFAULT 'month' CHECK (interval IN ('month', 'year')),
    ADD COLUMN period_anchor            timestamptz,
    ADD COLUMN current_period_start     timestamptz,
    ADD COLUMN current_period_end       timestamptz,
    ADD COLUMN cancel_at_period_end     boolean     NOT NULL DEFAULT false,
    ADD COLUMN credit_cents             bigint      NOT NULL DEFAULT 0 CHECK (credit_cents >= 0),
    ADD COLUMN last_invoice             integer     NOT NULL DEFAULT 0,
    ADD COLUMN provider                 text        CHECK (provider IN ('manual', 'stripe')),
    ADD COLUMN provider_customer_id     text,
    ADD COLUMN provider_subscription_id text,
    ADD COLUMN provider_checkout_id     text,
    ADD COLUMN revision                 bigint      NOT NULL DEFAULT 0,
    ADD COLUMN changing_until           timestamptz,
    ADD CONSTRAINT subscriptions_period CHECK (num_nulls(provider, period_anchor, current_period_start, current_period_end) IN (0, 4)),
    ADD CONSTRAINT subscriptions_provider_subscription_id_key UNIQUE (provider_subscription_id);
COMMENT ON COLUMN subscriptions.period_anchor IS 'the begin of the first period: all others begin on its day of the month, or the last one';
COMMENT ON COLUMN subscriptions.credit_cents IS 'what is left of credits, of manual billing; the next invoices use it up';
COMMENT ON COLUMN subscriptions.last_invoice IS 'the number of the last invoice of manual billing';
COMMENT ON COLUMN subscriptions.provider_checkout_id IS 'the last page to pay at: there is never more than one';
COMMENT ON COLUMN subscriptions.revision IS 'grows with each change: who read another one has read something old';
COMMENT ON COLUMN subscriptions.changing_until IS 'a change is under way, and nobody else may begin one before this';

UPDATE subscriptions s
SET price_cents = p.price_cents, currency = p.currency, interval = p.interval
FROM plans p WHERE p.id = s.plan_id;

CREATE INDEX subscriptions_due_idx ON subscriptions (current_period_end) WHERE current_period_end IS NOT NULL;

-- On the terms that they were bought on.
CREATE TABLE subscription_add_ons (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL REFERENCES subscriptions (organization_id) ON DELETE CASCADE,
    slug            text        NOT NULL,
    name            text        NOT NULL,
    limit_name      text        NOT NULL CHECK (limit_name IN ('profileLimit', 'memberLimit', 'apiRpmLimit', 'apiRphLimit')),
    amount          integer     NOT NULL CHECK (amount > 0),
    quantity        integer     NOT NULL CHECK (quantity > 0),
    price_cents     integer     NOT NULL CHECK (price_cents >= 0),
    created_at      timestamptz NOT NULL,
    CONSTRAINT subscription_add_ons_slug UNIQUE (organization_id, slug)
);

CREATE TABLE invoices (
    id                  uuid        PRIMARY KEY,
    organization_id     uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    number              text        NOT NULL,
    status              text        NOT NULL CHECK (status IN ('open', 'paid', 'uncollectible', 'void')),
    currency            text        NOT NULL,
    subtotal_cents      bigint      NOT NULL,
    total_cents         bigint      NOT NULL,
    amount_due_cents    bigint      NOT NULL CHECK (amount_due_cents >= 0),
    lines               jsonb       NOT NULL,
    period_start        timestamptz NOT NULL,
    period_end          timestamptz NOT NULL,
    hosted_url          text,
    provider            text        NOT NULL,
    provider_invoice_id text,
    created_at          timestamptz NOT NULL,
    CONSTRAINT invoices_number UNIQUE (organization_id, provider, number),
    CONSTRAINT invoices_provider_invoice_id_key UNIQUE (provider_invoice_id)
);
CREATE INDEX invoices_list_idx ON invoices (organization_id, created_at, id);

-- The events of the payment provider that were taken in: each counts once.
CREATE TABLE payment_events (
    id          text        PRIMARY KEY,
    kind        text        NOT NULL,
    received_at timestamptz NOT NULL
);
CREATE INDEX payment_events_received_at_idx ON payment_events (received_at);

-- +goose Down
DROP TABLE payment_events, invoices, subscription_add_ons;
DROP INDEX subscriptions_due_idx;
ALTER TABLE subscriptions
    DROP CONSTRAINT subscriptions_period,
    DROP COLUMN status, DROP COLUMN price_cents, DROP COLUMN currency, DROP COLUMN interval, DROP COLUMN period_anchor,
    DROP COLUMN current_period_start, DROP COLUMN current_period_end, DROP COLUMN cancel_at_period_end,
    DROP COLUMN credit_cents, DROP COLUMN last_invoice, DROP COLUMN provider, DROP COLUMN provider_customer_id,
    DROP COLUMN provider_subscription_id, DROP COLUMN provider_checkout_id, DROP COLUMN revision, DROP COLUMN changing_until;
UPDATE plans SET add_ons = '[]';
