package files

import (
	"os"
	"strings"

	"github.com/google/uuid"
)

// Recover finds out from the directory what became of downloads after events of the
// browser were lost. It returns true if it has to be called again after a pause: a
// download of which nothing was found either has just begun or has ended.
//
// Downloads whose begin was lost have no origin and the name that SafeName gives without one.
func (l *Launch) Recover() (again bool) {
	names := l.storedDownloads()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range names {
		if id := strings.TrimSuffix(name, partialSuffix); len(id) == len(uuid.Nil.String()) && uuid.Validate(id) == nil {
			l.begin(id, "", "")
		}
	}
	for id := range l.discarded {
		l.removeContent(&File{ID: id, Source: Download, Stored: id})
	}
	for _, f := range l.files {
		switch {
		case !f.live:
		case names[f.Stored+partialSuffix]:
			f.missing = false
		case names[f.Stored]:
			l.complete(f, f.Stored)
		case f.State != InProgress:
		case f.missing: // if it has not ended, it does now
			l.cancel(f.ID)
			l.stop(f)
		default:
			f.missing, again = true, true
		}
	}
	return again
}

// storedDownloads returns the names in the directory of downloads.
func (l *Launch) storedDownloads() map[string]bool {
	shared, err := os.OpenRoot(l.Shared())
	if err != nil {
		return nil
	}
	defer shared.Close()
	dir, err := shared.Open(downloadsDir)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxEntries) // what could be read
	found := make(map[string]bool, len(names))
	for _, name := range names {
		found[name] = true
	}
	return found
}
