package report

import "os"

// OnSync replaces the function that syncs the journal to disk.
func (r *Reporter) OnSync(sync func(*os.File) error) { r.journal.sync = sync }

// IsLocked reports whether the lock that every authorize request needs is held.
func (r *Reporter) IsLocked() bool {
	if !r.journal.mu.TryLock() {
		return true
	}
	r.journal.mu.Unlock()
	return false
}
