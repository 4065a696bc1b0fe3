// Package audit keeps who changed what in an organization. An event is written
// in the transaction of the change that it tells of: there is neither one
// without the other. It outlives what it tells of.
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

// maxDetails bounds the details of one event, in bytes of JSON.
const maxDetails = 16 << 10

// Source is where a change comes from. Without a user and a key it is the
// service's own doing.
type Source struct {
	Operator      string // what the operating system calls who runs the service; empty for nobody of them
	UserID        uuid.UUID
	KeyID         uuid.UUID
	ClientAddress string // empty when no request made the change
	RequestID     string
}

// The types of actors.
const (
	User     = "user"
	Key      = "key"
	Operator = "operator"
	System   = "system"
)

func (s Source) actor() (kind string, id *uuid.UUID) {
	switch {
	case s.Operator != "":
		return Operator, nil
	case s.UserID != uuid.Nil:
		return User, &s.UserID
	case s.KeyID != uuid.Nil:
		return Key, &s.KeyID
	default:
		return System, nil
	}
}

// Event is a change that somebody made.
type Event struct {
	ID            uuid.UUID       `db:"id"`
	Action        string          `db:"action"` // a noun and a verb, such as apiKey.created
	TargetID      string          `db:"target_id"`
	ActorType     string          `db:"actor_type"` // User, Key, Operator or System
	ActorID       *uuid.UUID      `db:"actor_id"`
	ActorEmail    *string         `db:"actor_email"` // at that time
	ClientAddress *string         `db:"client_address"`
	RequestID     *string         `db:"request_id"`
	Details       json.RawMessage `db:"details"` // an object
	CreatedAt     time.Time       `db:"created_at"`
}

// Log is the events of all organizations.
type Log struct {
	DB    *sqlx.DB
	Clock clock.Clock
	// Source tells where the change that a context belongs to comes from.
	Source func(ctx context.Context) Source
}

// Record writes an event in tx, the transaction of the change. The action is a
// noun and a verb in the past, such as member.roleChanged; the details never
// hold a secret. Those of an operator's change name the operator. What concerns no
// organization has the zero orgID, and only a tx that sees all can write it.
func (l *Log) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error {
	source := l.Source(ctx)
	details = maps.Clone(details)
	if details == nil {
		details = map[string]any{}
	}
	if source.Operator != "" {
		details["operator"] = source.Operator
	}
	text, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("write the details of %s: %w", action, err)
	}
	if len(text) > maxDetails {
		return fmt.Errorf("the details of %s have %d bytes, more than %d", action, len(text), maxDetails)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an event id: %w", err)
	}
	kind, actor := source.actor()
	_, err = tx.ExecContext(ctx, `
		INSERT INTO audit_events (id, organization_id, action, target_id, actor_type, actor_id, actor_email,
			client_address, request_id, details, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, (SELECT email FROM users WHERE id = $7), NULLIF($8, ''), NULLIF($9, ''), $10, $11)`,
		id, uuid.NullUUID{UUID: orgID, Valid: orgID != uuid.Nil}, action, targetID, kind, actor, source.UserID, source.ClientAddress, source.RequestID, string(text), l.Clock.Now())
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	return nil
}
