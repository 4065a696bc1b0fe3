// Package profile manages browser profiles: the identity and launch settings of a
// browser. A profile belongs to one organization, and the plan limits the number
// of profiles.
//
// The proxy password and the keys of client certificates are stored encrypted in columns
// of their own. They are never part of a Profile; only Config returns them.
package profile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
)

// Fields are the fields that a caller may set, except for the proxy password and the client
// certificates.
type Fields struct {
	Name           string            `json:"name"`
	Notes          string            `json:"notes"`
	Tags           []string          `json:"tags"`
	BrowserVersion int32             `json:"browserVersion"` // major; 0 if the worker of a launch chooses it
	OS             *string           `json:"os,omitempty"`   // windows, macos, linux or android
	Persist        bool              `json:"persist"`        // whether the browser's data is kept between launches
	Metadata       map[string]string `json:"metadata"`
	settings.Settings
}

// Draft is the input for a new profile.
type Draft struct {
	Fields
	ProxyPassword      *string
	ClientCertificates []certs.ClientInput // only for Create
}

// Profile is a profile as returned to callers. The JSON names are those of the API.
type Profile struct {
	ID             uuid.UUID `json:"id"`
	OrganizationID uuid.UUID `json:"organizationId"`
	Fields
	HasProxyPassword   bool                `json:"-"`
	ClientCertificates []ClientCertificate `json:"clientCertificates"`
	Version            int64               `json:"version"`   // starts at 1 and increases with every change
	Ephemeral          bool                `json:"ephemeral"` // belongs to one launch
	ActiveSessions     int                 `json:"activeSessions"`
	LastUsedAt         *time.Time          `json:"lastUsedAt"`
	CreatedBy          *uuid.UUID          `json:"createdBy"`
	CreatedAt          time.Time           `json:"createdAt"`
	UpdatedAt          time.Time           `json:"updatedAt"`
}

// Config is the data that a worker needs to launch a profile.
type Config struct {
	Profile
	ProxyPassword *string
	ClientKeys    []certs.Client // the client certificates with their keys
	// OrganizationNetwork has the network rules of the organization; nil for none.
	OrganizationNetwork *netrules.Rules
}

// Stats contains usage and limits; a nil limit is unlimited (specification 2.7).
type Stats struct {
	TotalProfiles     int // profiles that List returns
	EphemeralProfiles int // profiles of one launch; the profileLimit counts these and TotalProfiles
	ActiveProfiles    int // profiles of both kinds that are running
	Ceilings
}

// Ceilings are the four limits of a subscription; nil means unlimited.
type Ceilings struct {
	ProfileLimit, MemberLimit, APIRpmLimit, APIRphLimit *int
}

// LimitError is the cause of the fault at the profile limit (specification
// 7.3.1).
type LimitError struct {
	Current, Limit int
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%d profiles of %d", e.Current, e.Limit)
}

// Limits returns the limits of an organization's subscription.
type Limits interface {
	// LockProfileLimit returns the profileLimit, nil for unlimited. Until tx ends, no
	// other transaction can lock it. Returns NotFound for an organization that was
	// removed meanwhile.
	LockProfileLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (*int, error)
	// Ceilings returns the four limits.
	Ceilings(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (Ceilings, error)
}

// LiveSessions counts the running sessions of profiles.
type LiveSessions interface {
	// LiveByProfile returns the number of running sessions of each profile. Profiles
	// without one may be missing.
	LiveByProfile(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID, profileIDs []uuid.UUID) (map[uuid.UUID]int, error)
	// HeldByProfile returns the number of running sessions and reserved launches of a
	// profile.
	HeldByProfile(ctx context.Context, q sqlx.QueryerContext, orgID, profileID uuid.UUID) (int, error)
	// LiveProfiles returns the number of profiles with running sessions.
	LiveProfiles(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (int, error)
}

// Sealer encrypts secrets for storage. A secret can be decrypted only with the aad with
// which it was encrypted.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Recorder writes the audit log, in the transaction of the change.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// Service manages profiles. Methods return NotFound for a profile of another
// organization.
type Service struct {
	DB           *sqlx.DB
	System       *sqlx.DB // sees all organizations
	ConfigDB     *sqlx.DB // for Config; limited to one organization, like DB; default DB
	Clock        clock.Clock
	Sealer       Sealer
	Limits       Limits
	LiveSessions LiveSessions
	Recorder     Recorder      // records changes by users; nil records nothing
	Decryptions  chan struct{} // its capacity limits how many requests decrypt keys at once; nil does not

	configs configs
}
