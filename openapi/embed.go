// Package openapi contains the hand-written documents from which gen/ is generated.
package openapi

import "embed"

// Files contains cloud.yaml and worker.yaml, and shared.yaml, which both reference.
//
//go:embed cloud.yaml worker.yaml shared.yaml
var Files embed.FS
