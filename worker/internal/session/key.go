package session

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// OrganizationKey is the key that a launch is charged to (specification 5.3).
// However it is printed, logged or encoded, it doesn't show. The zero value is
// none: the worker's own is meant.
type OrganizationKey struct {
	secret *string // a pointer: what prints a struct by reflection stops there
}

const redacted = "[organization key]"

// NewOrganizationKey returns the key that a caller sent.
func NewOrganizationKey(secret string) OrganizationKey {
	if secret == "" {
		return OrganizationKey{}
	}
	return OrganizationKey{&secret}
}

// Reveal returns the key itself, for the header of a request to the cloud.
func (k OrganizationKey) Reveal() string {
	if k.secret == nil {
		return ""
	}
	return *k.secret
}

// IsZero reports whether there is no key.
func (k OrganizationKey) IsZero() bool { return k.secret == nil }

// Equal compares in a time that tells nothing of the keys but their lengths.
func (k OrganizationKey) Equal(other OrganizationKey) bool {
	return subtle.ConstantTimeCompare([]byte(k.Reveal()), []byte(other.Reveal())) == 1
}

// String implements fmt.Stringer.
func (k OrganizationKey) String() string {
	if k.IsZero() {
		return ""
	}
	return redacted
}

// Format implements fmt.Formatter: no verb shows the key.
func (k OrganizationKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue implements slog.LogValuer.
func (k OrganizationKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON implements json.Marshaler.
func (k OrganizationKey) MarshalJSON() ([]byte, error) { return []byte(`"` + k.String() + `"`), nil }
