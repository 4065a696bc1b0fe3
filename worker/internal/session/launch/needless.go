package launch

import "slices"

// IsNeedlessArg reports whether a switch of scripts for containers changes nothing here: the
// sandbox stays on, and the worker sets the others where the host needs them.
func IsNeedlessArg(arg string) bool {
	return slices.Contains([]string{"--no-sandbox", "--disable-setuid-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"}, arg)
}
