package access

import (
	"net/url"
	"strings"
)

// Address is where clients reach the worker: scheme, host and, behind a load
// balancer, a path such as /w/<id>. Everything that has to name the worker is
// built from it, never from what a request says of itself.
type Address struct{ base url.URL }

// NewAddress returns the address that a configured URL means.
func NewAddress(public *url.URL) Address {
	base := *public
	base.Path = strings.TrimSuffix(base.Path, "/")
	if base.Path != "" && !strings.HasPrefix(base.Path, "/") {
		base.Path = "/" + base.Path
	}
	base.RawPath = ""
	return Address{base}
}

// String is the address without a slash at its end.
func (a Address) String() string { return a.base.String() }

// Secure reports whether clients come by https.
func (a Address) Secure() bool { return a.base.Scheme == "https" }

// Host is the host that clients connect to, with its port if it is not the
// scheme's own.
func (a Address) Host() string { return a.base.Host }

// Path is a path of the worker's as clients see it.
func (a Address) Path(path string) string { return a.base.Path + path }

// BrowserPath is the path of a launch's routes as clients see it, with a slash
// at its end.
func (a Address) BrowserPath(launchID string) string {
	return a.Path("/browsers/" + launchID + "/")
}

// Browser is the URL of one of a launch's routes: path is what comes after
// /browsers/<launchId>/.
func (a Address) Browser(launchID, path string, query url.Values) string {
	return a.browser(a.base.Scheme, launchID, path, query)
}

// BrowserSocket is Browser for a WebSocket.
func (a Address) BrowserSocket(launchID, path string, query url.Values) string {
	scheme := "ws"
	if a.Secure() {
		scheme = "wss"
	}
	return a.browser(scheme, launchID, path, query)
}

func (a Address) browser(scheme, launchID, path string, query url.Values) string {
	u := a.base
	u.Scheme, u.Path, u.RawQuery = scheme, a.BrowserPath(launchID)+strings.TrimPrefix(path, "/"), query.Encode()
	return u.String()
}

// IsOrigin reports whether a page of that Origin was served from here.
func (a Address) IsOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == a.base.Scheme && hostPort(u) == hostPort(&a.base)
}

// hostPort spells the host out, as browsers leave a scheme's own port away.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
