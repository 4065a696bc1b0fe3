// Package profile manages browser profiles: the identity and launch settings of a
// browser. A profile belongs to one organization, and the plan limits the number
// of profiles.
//
// The proxy password is stored encrypted in its own column. It is never part of a
// Profile; only Config returns it.
package profile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
)

// Settings are the emulation settings; nil is the browser's default. The names
// in JSON are those of the API. No secret is among them.
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
}

// Size is in CSS pixels.
type Size struct {
	Height int32 `json:"height"`
	Width  int32 `json:"width"`
}

// Geolocation is a position: degrees, and metres of accuracy.
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

// Fields are what a caller may set, except for the proxy password.
type Fields struct {
	Name           string            `json:"name"`
	Notes          string            `json:"notes"`
	Tags           []string          `json:"tags"`
	BrowserVersion int32             `json:"browserVersion"` // major; 0 while a launch leaves it to its worker
	OS             *string           `json:"os,omitempty"`   // windows, macos, linux or android
	Persist        bool              `json:"persist"`        // the browser's data is kept between launches
	Metadata       map[string]string `json:"metadata"`
	Settings
}

// Draft is the input for a new profile.
type Draft struct {
	Fields
	ProxyPassword *string
}

// Profile is a profile as it is shown.
type Profile struct {
	ID             uuid.UUID
	OrganizationID uuid.UUID
	Fields
	HasProxyPassword bool
	Version          int64 // grows with every change, from 1
	Ephemeral        bool  // lives as long as one launch
	ActiveSessions   int
	LastUsedAt       *time.Time
	CreatedBy        *uuid.UUID
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// Config is what a worker needs to launch a profile.
type Config struct {
	Profile
	ProxyPassword *string
}

// Stats is usage and ceilings; a nil ceiling is none (specification 2.7).
type Stats struct {
	TotalProfiles     int // as many as List has
	EphemeralProfiles int // that live as long as one launch; with TotalProfiles what the profileLimit counts
	ActiveProfiles    int // that run now, of both
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

// Limits knows what an organization's subscription allows.
type Limits interface {
	// LockProfileLimit returns the profileLimit, nil for unlimited, and holds
	// off all others who ask for it until tx ends. An organization that was
	// removed meanwhile is NotFound.
	LockProfileLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (*int, error)
	// Ceilings returns the four limits.
	Ceilings(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (Ceilings, error)
}

// LiveSessions counts the running sessions of profiles.
type LiveSessions interface {
	// LiveByProfile returns how many live sessions each of the profiles has; one
	// without any may be missing.
	LiveByProfile(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID, profileIDs []uuid.UUID) (map[uuid.UUID]int, error)
	// HeldByProfile counts a profile's live sessions and launches on their way.
	HeldByProfile(ctx context.Context, q sqlx.QueryerContext, orgID, profileID uuid.UUID) (int, error)
	// LiveProfiles returns how many profiles have live sessions.
	LiveProfiles(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (int, error)
}

// Sealer encrypts secrets for storage. What was sealed with one aad can't be
// opened with another.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Recorder writes the audit log, in the transaction of the change.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// Service manages profiles. A profile of another organization is NotFound.
type Service struct {
	DB           *sqlx.DB
	System       *sqlx.DB // sees all organizations
	ConfigDB     *sqlx.DB // what Config reads by, within one organization as DB; DB when nil
	Clock        clock.Clock
	Sealer       Sealer
	Limits       Limits
	LiveSessions LiveSessions
	Recorder     Recorder // of the changes that users make; nil keeps none

	configs configs
}
