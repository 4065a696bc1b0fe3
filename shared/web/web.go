// Package web contains what the pages of both programs share: the sources of the
// components for the dashboard and the console, which esbuild bundles, and the design
// tokens, which the live view and the API explorer load as they are.
package web

import "embed"

// Styles contains styles/tokens.css.
//
//go:embed styles/tokens.css
var Styles embed.FS
