// Package files stores the files of launches on disk: what their browsers download and
// what their clients upload.
//
// A launch has a directory. Its part "shared" is visible to the browser: "downloads" and
// "temp" belong to the browser's user, "uploads" to the worker. The browser can put anything
// into downloads, so names found there are never trusted, links are never followed, and
// only regular files of the browser's user are read.
package files

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/weborigin"
)

// Source is where a file comes from.
type Source string

// The sources.
const (
	Download Source = "download" // of the browser
	Upload   Source = "upload"   // of a client
)

// State is the state of a file. Only complete files have a content that stays.
type State string

// The states.
const (
	InProgress    State = "in_progress"
	Complete      State = "complete"
	Canceled      State = "canceled"       // by a client or by an error; Chromium does not say which
	Failed        State = "failed"         // the browser ended, or the file is not readable
	QuotaExceeded State = "quota_exceeded" // canceled by the worker
	DiskFull      State = "disk_full"      // canceled by the worker: the disk of the host is full
)

// File describes a file.
type File struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Source    Source    `json:"source"`
	State     State     `json:"state"`
	Size      int64     `json:"size"`             // so far
	Total     int64     `json:"total,omitempty"`  // expected; 0 if unknown
	SHA256    string    `json:"sha256,omitempty"` // once it is complete and read
	Origin    string    `json:"origin,omitempty"` // of a download; empty if it has none
	Path      string    `json:"path,omitempty"`   // of an upload, as the browser sees it
	CreatedAt time.Time `json:"createdAt"`

	Stored string `json:"stored"` // name in its directory

	live    bool // the browser has not reported the end of the download
	missing bool // neither an event nor a file was found of a live download, so far
}

// Errors of this package.
var (
	ErrNotFound  = errors.New("files: no such file")
	ErrQuota     = errors.New("files: the launch's quota is used up")
	ErrDiskFull  = errors.New("files: the disk is full")
	ErrNoContent = errors.New("files: the file has no content")
	ErrEnded     = errors.New("files: the launch has ended")
)

// MaxName is the maximum length of a name in bytes: the limit of file systems.
const MaxName = 255

var idPattern = lazy.Regexp(`^[A-Za-z0-9-]{1,64}$`)

// CheckName returns why a client cannot use a name for an upload; "" if it can.
func CheckName(name string) (problem string) {
	switch {
	case name == "" || name == "." || name == "..":
		return "must be the name of a file"
	case len(name) > MaxName:
		return "must be at most 255 bytes long"
	case !utf8.ValidString(name):
		return "must be valid UTF-8"
	case strings.ContainsAny(name, `/\`):
		return "must not contain slashes or backslashes"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "must not contain control characters"
	}
	return ""
}

// SafeName returns a name that a client can use for its own file, made of one that a
// site has chosen. It is never empty.
func SafeName(name string) string {
	name = strings.ToValidUTF8(name, "_")
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '_'
		}
		return r
	}, name)
	for len(name) > MaxName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	if name == "" || name == "." || name == ".." {
		return "download"
	}
	return name
}

// UniqueName returns a name that is not used yet, also where letter case does not count, and
// adds it to the used ones. Names get numbers as in Chromium.
func UniqueName(name string, used map[string]bool) string {
	suffix := path.Ext(name)
	base := strings.TrimSuffix(name, suffix)
	for n := 1; used[strings.ToLower(name)]; n++ {
		name = fmt.Sprintf("%s (%d)%s", base, n, suffix)
	}
	used[strings.ToLower(name)] = true
	return name
}

// maxOrigin is the maximum length of an origin in bytes.
const maxOrigin = 300

// originOf returns the origin of a download's URL, or "".
func originOf(address string) string {
	origin := weborigin.Of(strings.TrimPrefix(address, "blob:"))
	if len(origin) > maxOrigin {
		return ""
	}
	return origin
}
