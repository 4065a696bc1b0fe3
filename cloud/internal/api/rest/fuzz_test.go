package rest

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
)

// documentedETag is the pattern of If-Match in the document.
var documentedETag = regexp.MustCompile(`^(\*|"[0-9]{1,18}")$`)

// FuzzIfMatch: the ETag of a version is parsed to that version. Of the values that the
// document allows, only * is not a version.
func FuzzIfMatch(f *testing.F) {
	for _, header := range []string{`"1"`, `*`, `"007"`, `"999999999999999999"`, `"9999999999999999999"`, `W/"1"`, `""`, `1`, `"-1"`, `"1", "2"`, "\"1\"\n"} {
		f.Add(header, int64(1))
	}
	f.Fuzz(func(t *testing.T, header string, version int64) {
		if version >= 0 {
			tag := etag(profile.Profile{Version: version})
			if got := ifMatch(&tag); got == nil || *got != version || version < 1e18 && !documentedETag.MatchString(tag) {
				t.Errorf("version %d has the ETag %s", version, tag)
			}
		}
		if !documentedETag.MatchString(header) {
			return
		}
		got := ifMatch(&header)
		if header == "*" {
			if got != nil {
				t.Errorf("* was parsed as version %d", *got)
			}
			return
		}
		if want, err := strconv.ParseInt(header[1:len(header)-1], 10, 64); err != nil || got == nil || *got != want {
			t.Errorf("%s was parsed as %v", header, got)
		}
	})
}
