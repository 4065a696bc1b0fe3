// Package netrules decides which destinations a browser may open, load and connect to.
// The cloud uses it when rules are written, the worker when a browser runs.
package netrules

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"github.com/browser-svc/svc/shared/fault"
)

// Rules of one level: an organization, a profile or a launch. The zero value allows
// everything. The JSON names are those of the API.
type Rules struct {
	Navigate             *Filter  `json:"navigate,omitempty"` // documents: of tabs, popups and frames
	Connect              *Filter  `json:"connect,omitempty"`  // every connection; hosts only
	Methods              *Methods `json:"methods,omitempty"`
	Block                []string `json:"block,omitempty"`                // image, media, font, ads
	Uploads              string   `json:"uploads,omitempty"`              // allow, deny
	Downloads            string   `json:"downloads,omitempty"`            // allow, deny
	MaxBytes             *int64   `json:"maxBytes,omitempty"`             // of all connections, both directions
	MaxRequestsPerMinute *int32   `json:"maxRequestsPerMinute,omitempty"` // of all pages and workers together
}

// Filter allows and denies by patterns. Deny takes precedence over ask, and ask over allow.
type Filter struct {
	Allow []string `json:"allow,omitzero"` // nil: everything; empty: nothing
	Ask   []string `json:"ask,omitempty"`  // a person decides; only of documents that are requested from a server
	Deny  []string `json:"deny,omitempty"`
}

// Methods restricts the methods of requests.
type Methods struct {
	ReadOnly bool `json:"readOnly"` // only GET, HEAD and OPTIONS
}

// Value implements driver.Valuer.
func (r *Rules) Value() (driver.Value, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	raw, err := json.Marshal(*r)
	return string(raw), err
}

// Scan implements sql.Scanner.
func (r *Rules) Scan(value any) error {
	raw, ok := value.([]byte)
	if !ok {
		return fmt.Errorf("network rules are a %T", value)
	}
	return json.Unmarshal(raw, r)
}

// Check returns one detail for each invalid pattern. The prefix ends with a dot.
func (r *Rules) Check(prefix string) (details []fault.Detail) {
	if r == nil {
		return nil
	}
	check := func(field string, patterns []string, parse func(string) (pattern, error)) {
		for i, text := range patterns {
			if _, err := parse(text); err != nil {
				details = append(details, fault.Detail{
					Field: fmt.Sprintf("%s%s[%d]", prefix, field, i), Code: fault.InvalidFormat, Message: err.Error(), Received: text,
				})
			}
		}
	}
	if r.Navigate != nil {
		check("navigate.allow", r.Navigate.Allow, parseURLPattern)
		check("navigate.ask", r.Navigate.Ask, parseWebPattern)
		check("navigate.deny", r.Navigate.Deny, parseURLPattern)
	}
	if r.Connect != nil {
		check("connect.allow", r.Connect.Allow, parseHostPattern)
		check("connect.deny", r.Connect.Deny, parseHostPattern)
	}
	return details
}
