package httpd_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
)

// FuzzClientAddress: the client address is the first hop, counted from the server, that
// is not a trusted proxy. Headers of the client cannot change it.
func FuzzClientAddress(f *testing.F) {
	f.Add("10.0.0.1:1", "203.0.113.7", "", "")
	f.Add("10.0.0.1:1", "198.51.100.9, 203.0.113.7 , 10.0.0.2", "", "")
	f.Add("10.0.0.1:1", "198.51.100.9", "10.0.0.3,10.0.0.2", "203.0.113.9")
	f.Add("203.0.113.7:1", "198.51.100.9", "", "203.0.113.9")
	f.Add("[2001:db8::1]:1", "[2001:db9::5]:443, ::ffff:10.0.0.9", "", "")
	f.Add("10.0.0.1:1", "garbage", "203.0.113.7", "")
	f.Add("@", "203.0.113.7", "", "")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	believing := httpd.New(httpd.Options{TrustedProxies: trusted}).IPExtractor
	plain := httpd.New(httpd.Options{}).IPExtractor
	f.Fuzz(func(t *testing.T, peer, first, second, realIP string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = peer
		r.Header[echo.HeaderXRealIP] = []string{realIP}
		r.Header[echo.HeaderXForwardedFor] = []string{first}
		if second != "" {
			r.Header[echo.HeaderXForwardedFor] = []string{first, second}
		}
		address, err := netip.ParseAddrPort(peer)
		if err != nil {
			return // the peer address is always valid
		}
		direct := address.Addr().String()
		if got := plain(r); got != direct && !equalAddress(got, direct) {
			t.Errorf("without proxies %q from %q", got, direct)
		}
		hops := strings.Split(strings.Join(r.Header[echo.HeaderXForwardedFor], ","), ",")
		if got, want := believing(r), nearestUntrusted(trusted, append(hops, direct)); got != want && !equalAddress(got, want) {
			t.Errorf("%q from %q by %q, want %q", got, direct, hops, want)
		}
	})
}

func equalAddress(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Unmap().WithZone("") == y.Unmap().WithZone("")
}

// nearestUntrusted returns the last hop that is not trusted. If a hop before it is not
// an address, the header is ignored.
func nearestUntrusted(trusted []netip.Prefix, hops []string) string {
	direct := hops[len(hops)-1]
	for i := len(hops) - 1; i >= 0; i-- {
		hop := strings.TrimSpace(hops[i])
		hop = strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]")
		address, err := netip.ParseAddr(hop)
		if err != nil {
			return direct
		}
		if !isIn(trusted, address.Unmap().WithZone("")) {
			return hop
		}
	}
	return strings.TrimSpace(hops[0])
}

func isIn(trusted []netip.Prefix, address netip.Addr) bool {
	for _, prefix := range trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
