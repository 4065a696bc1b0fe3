package session

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// OrganizationKey is the key that a launch is charged to (specification 5.3). It is
// redacted when printed, logged or encoded. The zero value means the worker's own
// key.
type OrganizationKey struct {
	secret *string // a pointer, so that reflection does not print it
}

const redacted = "[organization key]"

// NewOrganizationKey returns the key of a caller.
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

// Equal compares in a time that depends only on the lengths of the keys.
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
