package devtools

import (
	"net/url"
	"strings"
)

// publicAddress is where clients reach the worker. Everything that has to name
// it is built from the configuration, never from a request's Host.
type publicAddress struct{ url url.URL }

func (p publicAddress) secure() bool { return p.url.Scheme == "https" }

// browserPath is the path of a launch's routes as clients see it.
func (p publicAddress) browserPath(launchID string) string {
	return strings.TrimSuffix(p.url.Path, "/") + "/browsers/" + launchID + "/"
}

// isOrigin reports whether a page of that Origin was served from here.
func (p publicAddress) isOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == p.url.Scheme && hostPort(u) == hostPort(&p.url)
}

// hostPort spells the host out, as browsers leave a scheme's own port away.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
