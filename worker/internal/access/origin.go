package access

import "net/http"

// trustsCookies reports whether cookies count: they come along with requests
// that other origins' pages make, upgrades included. What changes nothing may be
// asked for by any page, since none can read the answer. For the rest browsers
// name the origin, but for a GET, which therefore has to show that it comes from
// here: a cookie goes to all ports of a host, whatever its SameSite.
func (g *Gate) trustsCookies(r *http.Request, route Route) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	if safe && !route.Kind.isSocket() && !route.Changes {
		return true
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return g.Address.IsOrigin(origin)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // none: the user typed the address
		return true
	case "":
		return !safe || route.Kind.isSocket()
	}
	return false
}
