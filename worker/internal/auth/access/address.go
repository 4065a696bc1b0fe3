package access

import (
	"net/url"
	"strings"
)

// Address is the public URL of the worker: scheme, host and, behind a load balancer,
// a path such as /w/<id>. All URLs of the worker are built from it, never from
// request headers.
type Address struct{ base url.URL }

// NewAddress returns the address for a configured URL.
func NewAddress(public *url.URL) Address {
	base := *public
	base.Path = strings.TrimSuffix(base.Path, "/")
	if base.Path != "" && !strings.HasPrefix(base.Path, "/") {
		base.Path = "/" + base.Path
	}
	base.RawPath = ""
	return Address{base}
}

// String returns the address without a trailing slash.
func (a Address) String() string { return a.base.String() }

// Secure reports whether clients use https.
func (a Address) Secure() bool { return a.base.Scheme == "https" }

// Host returns the public host, with its port unless it is the scheme's default.
func (a Address) Host() string { return a.base.Host }

// Path returns the public path of one of the worker's paths.
func (a Address) Path(path string) string { return a.base.Path + path }

// Socket returns the WebSocket URL of one of the worker's paths.
func (a Address) Socket(path string) string {
	u := a.base
	u.Scheme, u.Path = a.socketScheme(), a.Path(path)
	return u.String()
}

func (a Address) socketScheme() string {
	if a.Secure() {
		return "wss"
	}
	return "ws"
}

// BrowserPath returns the public path of a launch's routes, with a trailing slash.
func (a Address) BrowserPath(launchID string) string {
	return a.Path("/browsers/" + launchID + "/")
}

// Browser returns the URL of one of a launch's routes. path is relative to
// /browsers/<launchId>/.
func (a Address) Browser(launchID, path string, query url.Values) string {
	return a.browser(a.base.Scheme, launchID, path, query)
}

// BrowserSocket is Browser for a WebSocket.
func (a Address) BrowserSocket(launchID, path string, query url.Values) string {
	return a.browser(a.socketScheme(), launchID, path, query)
}

func (a Address) browser(scheme, launchID, path string, query url.Values) string {
	u := a.base
	u.Scheme, u.Path, u.RawQuery = scheme, a.BrowserPath(launchID)+strings.TrimPrefix(path, "/"), query.Encode()
	return u.String()
}

// IsOrigin reports whether an Origin header names this worker.
func (a Address) IsOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == a.base.Scheme && hostPort(u) == hostPort(&a.base)
}

// hostPort returns host:port with an explicit port, because browsers omit the
// default port.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
