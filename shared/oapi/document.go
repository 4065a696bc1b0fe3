// Package oapi validates requests against an OpenAPI document. A Guard
// authenticates each request by the operation's security schemes, authorizes it,
// and validates its parameters and its body. It reports all problems at once.
package oapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/oasdiff/yaml"
)

// Document is a bundled OpenAPI 3.0 document. It is immutable and safe for
// concurrent use.
type Document struct {
	version      string
	deprecations deprecations
	operations   map[string]map[string]string // operationId by method and pattern
	json         []byte
	yaml         func() []byte // created at the first call
	json31       func() []byte
	yaml31       func() []byte
}

// Parse parses a JSON document that package bundled has validated and bundled.
// The caller must not modify text afterwards.
func Parse(text []byte) (*Document, error) {
	s, err := readSpec(text)
	if err != nil {
		return nil, err
	}
	notices, err := readDeprecations(s)
	if err != nil {
		return nil, err
	}
	json31 := sync.OnceValue(func() []byte { return toOpenAPI31(text) })
	return &Document{
		version: s.Info.Version, deprecations: notices, operations: operationIDs(s), json: text, json31: json31,
		yaml:   sync.OnceValue(func() []byte { return toYAML(text) }),
		yaml31: sync.OnceValue(func() []byte { return toYAML(json31()) }),
	}, nil
}

func operationIDs(s *spec) map[string]map[string]string {
	all := map[string]map[string]string{}
	for path, item := range s.Paths {
		for method, op := range item.endpoints() {
			if all[method] == nil {
				all[method] = map[string]string{}
			}
			all[method][string(pattern(nil, path))] = op.OperationID
		}
	}
	return all
}

// OperationID returns the operationId of a method and an Echo pattern; the names of
// placeholders do not matter. HEAD uses the operation of GET. It returns "" for other
// routes.
func (d *Document) OperationID(method, route string) string {
	var buf [128]byte
	shape := pattern(buf[:0], route)
	if id := d.operations[method][string(shape)]; id != "" || method != http.MethodHead {
		return id
	}
	return d.operations[http.MethodGet][string(shape)]
}

// ContractVersion returns info.version.
func (d *Document) ContractVersion() string { return d.version }

// JSON returns the document as JSON. The caller must not modify it.
func (d *Document) JSON() []byte { return d.json }

// YAML returns the document as YAML. The caller must not modify it.
func (d *Document) YAML() []byte { return d.yaml() }

// JSON31 returns the document as OpenAPI 3.1 JSON. The caller must not modify it.
func (d *Document) JSON31() []byte { return d.json31() }

// YAML31 returns the document as OpenAPI 3.1 YAML. The caller must not modify it.
func (d *Document) YAML31() []byte { return d.yaml31() }

// toYAML and as31 convert a document. Errors are impossible, because the document was
// parsed before.
func toYAML(text []byte) []byte {
	out, err := yaml.Marshal(json.RawMessage(text))
	if err != nil {
		panic(fmt.Errorf("encode as YAML: %w", err))
	}
	return out
}

func toOpenAPI31(text []byte) []byte {
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		panic(fmt.Errorf("decode: %w", err))
	}
	upgradeTo31(tree)
	out, err := json.Marshal(tree)
	if err != nil {
		panic(fmt.Errorf("encode as 3.1: %w", err))
	}
	return out
}
