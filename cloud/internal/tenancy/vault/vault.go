// Package vault stores the credentials of an organization that workers type into pages,
// and decides which sessions may use them, and where. The clients of browsers never
// receive a password or a TOTP seed.
package vault

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
)

// maxSecrets is the maximum number of secrets of an organization.
const maxSecrets = 200

// Service manages the secrets of organizations.
type Service struct {
	DB     *sqlx.DB
	Clock  clock.Clock
	Sealer Sealer
	Audit  Recorder
}

// Sealer encrypts passwords and TOTP seeds.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Recorder writes the audit log. It reads the actor from the context.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// The audit actions.
const (
	created = "secret.created"
	updated = "secret.updated"
	deleted = "secret.deleted"
	used    = "secret.used"
)

// Fields are the fields of a secret that a user sets and reads.
type Fields struct {
	Name       string       `json:"name"`
	Username   *string      `json:"username"`
	Origins    []string     `json:"origins"`
	ProfileIDs *[]uuid.UUID `json:"profileIds"` // nil: all profiles and specs
}

// Secret is a secret without its password and TOTP seed.
type Secret struct {
	Fields
	ID          uuid.UUID
	HasPassword bool
	HasTOTP     bool
	CreatedAt   time.Time
	UpdatedAt   time.Time
	LastUsedAt  *time.Time
}

// Draft is a new secret.
type Draft struct {
	Fields
	Password *string
	TOTPSeed *string // base32, or an otpauth URI
}

// Field is a field of a secret that can be used.
type Field string

// The fields.
const (
	Username Field = "username"
	Password Field = "password"
	TOTP     Field = "totp" // the code of the current period
)

// Use is a worker's request for a field of a secret.
type Use struct {
	Secret    string // its id or name
	SessionID uuid.UUID
	Field     Field
	Origin    string // of the document that has the input
}

// Value is the value of a field. It must not be logged or stored.
type Value struct {
	SecretID   uuid.UUID
	Text       string
	ValidUntil *time.Time // end of the period of a TOTP code; nil for other fields
}
