package audit_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
)

var errFull = errors.New("the disk is full")

// failingFile is a file whose disk can be full: then half of each line is written.
type failingFile struct {
	mu       sync.Mutex
	content  []byte
	full     bool
	failures int
}

func (f *failingFile) WriteAt(text []byte, offset int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		text, err = text[:len(text)/2], errFull
		f.failures++
	}
	f.content = append(f.content[:offset], text...)
	return len(text), err
}

func (f *failingFile) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.content = f.content[:size]
	return nil
}

func (f *failingFile) Sync() error  { return nil }
func (f *failingFile) Close() error { return nil }

func (f *failingFile) setFull(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
}

func (f *failingFile) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.content)
}

// await waits until a text is written.
func (f *failingFile) await(t *testing.T, text string) {
	t.Helper()
	testenv.Eventually(t, text+" is written", func() bool { return strings.Contains(f.text(), text) })
}

// awaitFailures waits until so many writes have failed.
func (f *failingFile) awaitFailures(t *testing.T, count int) {
	t.Helper()
	testenv.Eventually(t, "failed writes", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.failures >= count
	})
}
