package report

import "os"

// OnSync replaces what brings the journal to the disk.
func (r *Reporter) OnSync(sync func(*os.File) error) { r.journal.sync = sync }
