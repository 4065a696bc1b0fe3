package report

import "os"

// OnSync replaces the function that syncs the journal to disk.
func (r *Reporter) OnSync(sync func(*os.File) error) { r.journal.sync = sync }
