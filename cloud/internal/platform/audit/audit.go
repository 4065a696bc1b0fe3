// Package audit records who changed what in an organization. An event is written in
// the transaction of its change, so neither exists without the other. It is kept after
// its subject is deleted.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
)

// maxDetails bounds the JSON of an event's details, in bytes.
const maxDetails = 16 << 10

// Source is the origin of a change. Without an operator, a user, a service account and a
// key it is the service itself.
type Source struct {
	Operator      string // operating system user of an operator's command; empty for other changes
	UserID        uuid.UUID
	AccountID     uuid.UUID // service account; zero for none
	AccountName   string
	KeyID         uuid.UUID
	TokenID       uuid.UUID // access token of the user or the service account; zero for none
	TokenName     string
	ClientAddress string // empty if no request made the change
	RequestID     string
}

// The types of actors.
const (
	User           = "user"
	Key            = "key"
	ServiceAccount = "serviceAccount"
	Operator       = "operator"
	System         = "system"
)

func (s Source) actor() (kind string, id *uuid.UUID) {
	switch {
	case s.Operator != "":
		return Operator, nil
	case s.UserID != uuid.Nil:
		return User, &s.UserID
	case s.AccountID != uuid.Nil:
		return ServiceAccount, &s.AccountID
	case s.KeyID != uuid.Nil:
		return Key, &s.KeyID
	default:
		return System, nil
	}
}

// Event is a recorded change.
type Event struct {
	ID            uuid.UUID       `db:"id"`
	Action        string          `db:"action"` // noun and verb, such as apiKey.created
	TargetID      string          `db:"target_id"`
	ActorType     string          `db:"actor_type"` // User, Key, ServiceAccount, Operator or System
	ActorID       *uuid.UUID      `db:"actor_id"`
	ActorEmail    *string         `db:"actor_email"` // of a user, at the time of the event
	ActorName     *string         `db:"actor_name"`  // of a service account, at the time of the event
	ClientAddress *string         `db:"client_address"`
	RequestID     *string         `db:"request_id"`
	Details       json.RawMessage `db:"details"` // an object
	CreatedAt     time.Time       `db:"created_at"`
}

// Log stores the events of all organizations.
type Log struct {
	DB    *sqlx.DB
	Clock clock.Clock
	// Source returns the origin of the change that a context belongs to.
	Source func(ctx context.Context) Source
}

// Record writes an event in tx, the transaction of the change. The action is a noun
// and a past-tense verb, such as member.roleChanged. The details must not contain
// secrets; for an operator they include the operator's name, and for an access token its
// id and name. An event without an
// organization has the zero orgID and requires a tx that sees all organizations.
func (l *Log) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error {
	source := l.Source(ctx)
	details = maps.Clone(details)
	if details == nil {
		details = map[string]any{}
	}
	if source.Operator != "" {
		details["operator"] = source.Operator
	}
	if source.TokenID != uuid.Nil {
		details["accessToken"] = map[string]any{"id": source.TokenID, "name": source.TokenName}
	}
	text, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode the details of %s: %w", action, err)
	}
	if len(text) > maxDetails {
		return fmt.Errorf("details of %s have %d bytes, more than the maximum of %d", action, len(text), maxDetails)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("generate an event id: %w", err)
	}
	kind, actor := source.actor()
	_, err = tx.ExecContext(ctx, `
		INSERT INTO audit_events (id, organization_id, action, target_id, actor_type, actor_id, actor_email,
			client_address, request_id, details, created_at, actor_name)
		VALUES ($1, $2, $3, $4, $5, $6, (SELECT email FROM users WHERE id = $7), NULLIF($8, ''), NULLIF($9, ''), $10, $11, NULLIF($12, ''))`,
		id, uuid.NullUUID{UUID: orgID, Valid: orgID != uuid.Nil}, action, targetID, kind, actor, source.UserID, source.ClientAddress, source.RequestID, string(text), l.Clock.Now(), source.AccountName)
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	return nil
}
