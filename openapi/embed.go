// Package openapi holds the documents that everything else is made from.
package openapi

import "embed"

// Files are the hand-written documents: cloud.yaml and worker.yaml, with the
// shared.yaml that both refer to.
//
//go:embed cloud.yaml worker.yaml shared.yaml
var Files embed.FS
