package registry

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
)

// The paths of requests after the key is removed, for routes and logs. All other paths
// under /v2/ become unknownPath, and the rest otherPath: they may contain a key in any
// place and encoding.
const (
	image       = "local-api"
	imagePath   = "/v2/[key]/" + image
	unknownPath = "/v2/[key]/..."
	otherPath   = "/..."
)

// The kinds of content.
const (
	manifests = "manifests"
	blobs     = "blobs"
	tags      = "tags"
)

// target is what a request asks for.
type target struct {
	path      string // as sent, with the key, for the response only
	key       string
	kind      string // "" if the path names no content of the image
	reference string // a tag or a digest
	query     url.Values
}

var (
	tagPattern    = lazy.Regexp(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
	digestPattern = lazy.Regexp(`^(sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128})$`)
)

// valid reports whether the reference has a form that may be requested from the upstream.
func (t target) valid() bool {
	return digestPattern().MatchString(t.reference) || t.kind == manifests && tagPattern().MatchString(t.reference)
}

// parse returns what the URL asks for, and the path without the key. No valid path has
// escapes.
func parse(u *url.URL) (target, string) {
	path := u.EscapedPath()
	if slices.Contains([]string{"/v2", "/v2/", "/livez", "/readyz"}, path) {
		return target{}, path
	}
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return target{}, otherPath
	}
	t := target{path: path, query: u.Query()}
	t.key, rest, _ = strings.Cut(rest, "/")
	rest, ok = strings.CutPrefix(rest, image+"/")
	kind, reference, _ := strings.Cut(rest, "/")
	switch {
	case !ok || reference == "":
		return t, unknownPath
	case kind == tags && reference == "list":
		t.kind = tags
		return t, imagePath + "/tags/list"
	case kind != manifests && kind != blobs || strings.Contains(reference, "/"):
		return t, unknownPath
	}
	t.kind, t.reference = kind, reference
	if !t.valid() {
		reference = "[invalid]"
	}
	return t, imagePath + "/" + kind + "/" + reference
}

type targetKey struct{}

func targetFrom(ctx context.Context) target {
	t, _ := ctx.Value(targetKey{}).(target)
	return t
}

// hideKey replaces the URL of each request by one without key and query, and passes
// the target in the context. Headers that may repeat the URL are removed.
func hideKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, path := parse(r.URL)
		r = r.WithContext(context.WithValue(r.Context(), targetKey{}, t))
		r.URL, r.RequestURI = &url.URL{Path: path}, path
		r.Header.Del("Referer")
		next.ServeHTTP(w, r)
	})
}
