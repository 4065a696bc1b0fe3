package contracttest

import (
	"context"
	"sync"
	"testing"

	"github.com/browser-svc/svc/openapi"
	"github.com/browser-svc/svc/shared/oapi/bundled"
)

// documents caches the loaded documents by file name. Loading one takes 0.3 s of
// processor time, and most tests of the servers need one.
var documents sync.Map

// Load returns the document of openapi/ with this file name, for example
// "cloud.yaml". All callers of a process share it and must not modify it. Load
// fails t if the document is invalid.
func Load(t testing.TB, name string) *bundled.Document {
	t.Helper()
	load, _ := documents.LoadOrStore(name, sync.OnceValues(func() (*bundled.Document, error) {
		return bundled.Load(context.Background(), openapi.Files, name)
	}))
	document, err := load.(func() (*bundled.Document, error))()
	if err != nil {
		t.Fatal(err)
	}
	return document
}
