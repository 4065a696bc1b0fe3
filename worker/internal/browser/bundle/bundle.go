// Package bundle holds identity presets: the system, device and screen that a
// browser presents (specification 2.3, 4.3).
//
// A bundle is one JSON file. There are built-in bundles, and a directory can add
// more. Bundles use only the emulation that DevTools offers for testing. Renderer
// and GPUName are descriptive.
package bundle

import (
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/settings"
)

// Bundle is an identity preset. For a field with the zero value the browser keeps
// its own value. In UserAgent, {major} is replaced by the browser's major version; see For.
// The JSON names are those of the API.
type Bundle struct {
	Filename       string `json:"filename"` // for example pixel-9.json; unique regardless of case
	Name           string `json:"name"`
	BrowserVersion int    `json:"browserVersion"` // the major version; 0: any
	OS             string `json:"os,omitempty"`   // windows, macos, linux or android
	settings.Identity
	settings.Emulation
}

const majorPlaceholder = "{major}"

// For returns the bundle for a browser of that major version.
func (b Bundle) For(major int) Bundle {
	b.BrowserVersion = major
	b.UserAgent = strings.ReplaceAll(b.UserAgent, majorPlaceholder, strconv.Itoa(major))
	return b
}
