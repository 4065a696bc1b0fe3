// Package vault stores the credentials of an organization that workers type into pages,
// and decides which session may use them, and where.
package vault

import (
	"time"

	"github.com/google/uuid"
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
	Password *string `json:"password"`
	TOTPSeed *string `json:"totpSeed"`
}

// Field is a field of a secret that can be used.
type Field string

// Use is a worker's request for a field of a secret.
type Use struct {
	Secret    string // its id or name
	SessionID uuid.UUID
	Field     Field
	Origin    string // of the document that has the input
}

// Value is the value of a field.
type Value struct {
	SecretID   uuid.UUID
	Text       string
	ValidUntil *time.Time // end of the period of a TOTP code; nil for other fields
}
