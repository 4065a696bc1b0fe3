// Package extension stores browser extensions, which launches on this machine can load:
//
//	<id>/
//	  extension.json  describes the extension; missing while it is deleted
//	  files/          its files, with a key in the manifest
//	.new-<random>/    a package that is being stored
//
// The id is the SHA-256 of the package. An extension that is deleted while a browser uses
// it keeps its files until the browser has ended.
package extension

import (
	"slices"
	"time"
)

// The limits of a package and of the store.
const (
	MaxPackage    = 64 << 20 // bytes
	MaxExtensions = 1000
)

// Extension is a stored extension.
type Extension struct {
	ID              string    `json:"id"`         // SHA-256 of the package, hexadecimal
	ChromiumID      string    `json:"chromiumId"` // in chrome-extension:// URLs
	Name            string    `json:"name"`
	Version         string    `json:"version"`
	ManifestVersion int       `json:"manifestVersion"`
	Size            int64     `json:"size"` // of the package, in bytes
	CreatedAt       time.Time `json:"createdAt"`
	Permissions     []string  `json:"permissions"` // also optional ones
}

// CanBypassProxy reports whether the extension can change how the browser reaches other
// hosts: its settings take precedence over the command line.
func (e Extension) CanBypassProxy() bool {
	return slices.Contains(e.Permissions, "proxy") || slices.Contains(e.Permissions, "privacy")
}
