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
)

// Settings are the emulation settings; nil is the browser's default. The JSON names are
// those of the API. Settings contain no secrets.
type Settings struct {
	OSVersion         *string           `json:"osVersion,omitempty"`
	WindowsVersion    *string           `json:"windowsVersion,omitempty"` // 7, 10 or 11
	OSArch            *string           `json:"osArch,omitempty"`         // x86 or arm
	Model             *string           `json:"model,omitempty"`
	Renderer          *string           `json:"renderer,omitempty"` // descriptive only
	GPUName           *string           `json:"gpuName,omitempty"`  // descriptive only
	UserAgent         *string           `json:"userAgent,omitempty"`
	Locale            *string           `json:"locale,omitempty"`      // BCP 47
	TimezoneID        *string           `json:"timezoneId,omitempty"`  // IANA
	ColorScheme       *string           `json:"colorScheme,omitempty"` // light, dark or no-preference
	Viewport          *Size             `json:"viewport,omitempty"`
	Screen            *Size             `json:"screen,omitempty"`
	DeviceScaleFactor *float64          `json:"deviceScaleFactor,omitempty"` // device pixels per CSS pixel
	IsMobile          *bool             `json:"isMobile,omitempty"`
	HasTouch          *bool             `json:"hasTouch,omitempty"`
	Geolocation       *Geolocation      `json:"geolocation,omitempty"`
	Permissions       []string          `json:"permissions,omitempty"`
	ExtraHTTPHeaders  map[string]string `json:"extraHTTPHeaders,omitempty"`
	IgnoreHTTPSErrors *bool             `json:"ignoreHTTPSErrors,omitempty"`
	Proxy             *Proxy            `json:"proxy,omitempty"`
	Args              []string          `json:"args,omitempty"`
	StartURLs         []string          `json:"startUrls,omitempty"`
	Record            []string          `json:"record,omitempty"`         // what workers record: video, events, frames
	CACertificates    []string          `json:"caCertificates,omitempty"` // PEM

	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"` // 0: no limit; nil: that of the worker
	MaxDurationSeconds *int32 `json:"maxDurationSeconds,omitempty"` // likewise
}

// Size is in CSS pixels.
type Size struct {
	Height int32 `json:"height"`
	Width  int32 `json:"width"`
}

// Geolocation is a position in degrees, with the accuracy in meters.
type Geolocation struct {
	Accuracy  *float64 `json:"accuracy,omitempty"`
	Latitude  float64  `json:"latitude"`
	Longitude float64  `json:"longitude"`
}

// Proxy is a proxy without its password.
type Proxy struct {
	Server   string  `json:"server"` // scheme://host:port
	Bypass   *string `json:"bypass,omitempty"`
	Username *string `json:"username,omitempty"`
}

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
	Settings
}

// Draft is the input for a new profile.
type Draft struct {
	Fields
	ProxyPassword      *string
	ClientCertificates []certs.ClientInput // only for Create
}

// Profile is a profile as returned to callers.
type Profile struct {
	ID             uuid.UUID
	OrganizationID uuid.UUID
	Fields
	HasProxyPassword   bool
	ClientCertificates []ClientCertificate
	Version            int64 // starts at 1 and increases with every change
	Ephemeral          bool  // belongs to one launch
	ActiveSessions     int
	LastUsedAt         *time.Time
	CreatedBy          *uuid.UUID
	CreatedAt          time.Time
	UpdatedAt          time.Time
}

// Config is the data that a worker needs to launch a profile.
type Config struct {
	Profile
	ProxyPassword *string
	ClientKeys    []certs.Client // the client certificates with their keys
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
