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

// Fields are the fields of a browser that were filled and their values, so that these are neither shown nor recorded.
// It is safe for concurrent use.
type Fields struct {
	mu     sync.Mutex
	filled []Element // in order
	values []string  // the same
}

// Contain reports whether a field was filled.
func (f *Fields) Contain(e Element) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.filled, e)
}

// Nodes returns the filled fields of a document.
func (f *Fields) Nodes(loader string) (nodes []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.filled {
		if e.Loader == loader {
			nodes = append(nodes, e.Node)
		}
	}
	return nodes
}

// Values returns the latest values, in the order of their first use.
func (f *Fields) Values() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values
}

func (f *Fields) add(e Element, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filled, f.values = appendNew(f.filled, e), appendNew(f.values, value)
}

// appendNew returns a list with an item. The given list does not change.
func appendNew[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(slices.Clone(list[max(0, len(list)+1-maxFields):]), item)
}
