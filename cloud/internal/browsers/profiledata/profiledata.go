// Package profiledata records the versions of the browser data of persistent profiles,
// and decides which session may write the next version. Workers keep the data itself in
// an object store, encrypted with the key of the organization.
//
// A session that acquires the data gets a lease. The lease lasts as long as the license
// slot of the session: the heartbeats of its worker renew both, and both end together. Only
// if the slot lapses because the worker is silent, the lease lasts longer (reportGrace).
package profiledata

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Service manages the data of profiles.
type Service struct {
	DB       *sqlx.DB
	System   *sqlx.DB // sees all organizations; for Deleted
	Sealer   Sealer
	Recorder Recorder // nil: changes are not recorded
}

// Sealer encrypts the keys of organizations.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Recorder records changes by users in the audit log.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// The audit actions.
const (
	restored       = "profile.dataRestored"
	versionDeleted = "profile.dataVersionDeleted"
)

// Version is one saved version of a profile's data.
type Version struct {
	ID        uuid.UUID `db:"id"`
	ProfileID uuid.UUID `db:"profile_id"`
	SessionID uuid.UUID `db:"session_id"`
	MachineID string    `db:"machine_id"`
	SizeBytes int64     `db:"size_bytes"` // of the files
	SentBytes int64     `db:"sent_bytes"` // that the worker added to the store
	CreatedAt time.Time `db:"created_at"`
	Current   bool      `db:"current"` // the next launch restores it
}

// Request is a worker's request for the data of a profile.
type Request struct {
	ProfileID uuid.UUID
	SessionID uuid.UUID
	MachineID string
	ReadOnly  bool // without a lease; the session cannot commit
}

// Access is what a worker needs to restore and save the data.
type Access struct {
	VersionID *uuid.UUID // the current version; nil if there is none
	Key       []byte     // of the organization
}

// Commit is a version that a worker has saved.
type Commit struct {
	Version             // without Current and CreatedAt
	Previous *uuid.UUID // the current version when the session acquired the data; nil for none
	Keep     int        // how many versions to keep
}

// row is a row of profile_data.
type row struct {
	CurrentVersion *uuid.UUID `db:"current_version"`
	LeaseSession   *uuid.UUID `db:"lease_session"`
	LeaseMachine   *string    `db:"lease_machine"`
}

func (r *row) leasedBy(sessionID uuid.UUID) bool {
	return r.LeaseSession != nil && *r.LeaseSession == sessionID
}

func (r *row) hasCurrent(id *uuid.UUID) bool {
	if id == nil || r.CurrentVersion == nil {
		return id == r.CurrentVersion
	}
	return *id == *r.CurrentVersion
}
