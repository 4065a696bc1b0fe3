package main

import (
	"os"
	"path/filepath"
	"strings"
)

// dataDir is where everything is kept: SVC_DIR, or .svc here. As root,
// PostgreSQL and the browsers run as other users, who must be able to reach it:
// where they can't, below /root for one, it is a directory of /var/lib/svc.
func dataDir() string {
	here, err := os.Getwd()
	if os.Geteuid() != 0 || err != nil || reachable(here) {
		return setting("SVC_DIR", ".svc")
	}
	return setting("SVC_DIR", filepath.Join("/var/lib/svc", strings.ReplaceAll(strings.Trim(here, "/"), "/", "-")))
}

// reachable reports whether every user can pass through the directory and all
// above it.
func reachable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
