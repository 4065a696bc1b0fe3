// Package storagestate reads and writes the cookies and the storage of a browser, in
// the JSON format of Playwright's storageState. It covers the default browser context.
package storagestate

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/browser-svc/svc/shared/fault"
)

// State is the storage state of a browser.
type State struct {
	Cookies []Cookie `json:"cookies"`
	Origins []Origin `json:"origins"`
	// OmittedRecords counts the IndexedDB records that the format cannot express: keys or
	// values with a Map, Set, Blob, File, ArrayBuffer or CryptoKey. Write ignores it.
	OmittedRecords int `json:"omittedRecords"`
}

// Cookie is a cookie. Expires is in seconds since 1970, -1 for a session cookie.
type Cookie struct {
	Name         string  `json:"name"`
	Value        string  `json:"value"`
	Domain       string  `json:"domain"`
	Path         string  `json:"path"`
	Expires      float64 `json:"expires"`
	HTTPOnly     bool    `json:"httpOnly"`
	Secure       bool    `json:"secure"`
	SameSite     string  `json:"sameSite,omitempty"`     // Strict, Lax or None; empty: the default of Chromium
	PartitionKey string  `json:"partitionKey,omitempty"` // the top-level site of a partitioned cookie
}

// Origin is the storage of one origin.
type Origin struct {
	Origin       string     `json:"origin"`
	LocalStorage []Item     `json:"localStorage"`
	IndexedDB    []Database `json:"indexedDB,omitempty"`
}

// Item is an entry of localStorage.
type Item struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Database is an IndexedDB database. Stores are passed between the page and the JSON
// document unchanged.
type Database struct {
	Name    string            `json:"name"`
	Version int64             `json:"version"`
	Stores  []json.RawMessage `json:"stores"`
}

// Check returns one detail for each invalid field that the API document cannot
// express. prefix is that of the state's fields, such as "browser.state.".
func (s *State) Check(prefix string) []fault.Detail {
	if s == nil {
		return nil
	}
	var details []fault.Detail
	origins := map[string]bool{}
	for i, o := range s.Origins {
		field := fmt.Sprintf("%sorigins[%d].origin", prefix, i)
		switch {
		case !isOrigin(o.Origin):
			details = append(details, fault.Detail{
				Field: field, Code: fault.InvalidFormat, Message: "must be an http or https origin such as https://example.com", Received: o.Origin,
			})
		case origins[o.Origin]:
			details = append(details, fault.Detail{Field: field, Code: fault.Custom, Message: "is listed twice", Received: o.Origin})
		}
		origins[o.Origin] = true
	}
	return details
}

// isOrigin reports whether a text is an http or https origin as browsers write it.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && *u == url.URL{Scheme: u.Scheme, Host: u.Host}
}
