package secretfill

import (
	"slices"
	"sync"
)

// maxFields limits the fields that are remembered: the oldest ones are in documents that
// are gone.
const maxFields = 1000

// Element is an element of a document.
type Element struct {
	Loader string // of the document
	Node   int    // backend DOM node
}

// Fields are the fields of a browser that were filled, so that their values are not shown.
// It is safe for concurrent use.
type Fields struct {
	mu     sync.Mutex
	filled []Element // in order
}

// Contain reports whether a field was filled.
func (f *Fields) Contain(e Element) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.filled, e)
}

func (f *Fields) add(e Element) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.filled, e) {
		return
	}
	if len(f.filled) >= maxFields {
		f.filled = slices.Delete(f.filled, 0, 1)
	}
	f.filled = append(f.filled, e)
}
