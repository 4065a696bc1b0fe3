// Package openapi contains the hand-written documents from which gen/ is generated.
package openapi

import "embed"

// Files contains cloud.yaml and worker.yaml, their parts in cloud/ and worker/, and
// shared.yaml, which all reference.
//
//go:embed cloud.yaml worker.yaml shared.yaml cloud worker
var Files embed.FS
