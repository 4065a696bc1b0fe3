package builds

import "time"

// SetNewBuildWait sets how long Find waits for new executables.
func SetNewBuildWait(f *Finder, limit time.Duration) { f.newBuildWait = limit }
