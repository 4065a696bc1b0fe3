package install

import (
	"fmt"
	"strconv"

	"github.com/browser-svc/svc/shared/lazy"
)

var (
	majorVersion = lazy.Regexp(`^[1-9][0-9]{0,3}$`)
	fullVersion  = lazy.Regexp(`^[1-9][0-9]{0,3}(\.[0-9]{1,5}){3}$`)
	checksum     = lazy.Regexp(`^[0-9a-f]{64}$`)
)

// versionRequest is a requested version.
type versionRequest struct {
	major int
	full  string // empty for any version of the major
}

func (w versionRequest) String() string {
	if w.full != "" {
		return w.full
	}
	return strconv.Itoa(w.major)
}

func parseVersion(text string) (versionRequest, error) {
	if fullVersion().MatchString(text) {
		var major int
		_, err := fmt.Sscanf(text, "%d.", &major)
		return versionRequest{major: major, full: text}, err
	}
	if !majorVersion().MatchString(text) {
		return versionRequest{}, fmt.Errorf("invalid version %q: use a major version such as 153, or all four numbers", text)
	}
	major, err := strconv.Atoi(text)
	return versionRequest{major: major}, err
}

// validate checks that a catalog entry is safe to use in paths.
func (r Release) validate() error {
	if !fullVersion().MatchString(r.Version) || !checksum().MatchString(r.SHA256) || r.SizeBytes <= 0 {
		return fmt.Errorf("invalid catalog entry for %q", r.Version)
	}
	return nil
}
