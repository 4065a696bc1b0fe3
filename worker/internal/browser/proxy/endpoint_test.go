package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestEndpoint_DoesNotWaitForLaterLookup resolves a name while another caller does, and while the name server fails: both
// get the earlier addresses.
func TestEndpoint_DoesNotWaitForLaterLookup(t *testing.T) {
	lookups := 0
	failing := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookups++
		return nil, errors.New("no name server")
	}}
	denied := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	e := &endpoint{name: "cloud.example.com", port: 443, resolver: failing}
	e.last.Store(&resolution{time: time.Now().Add(-2 * endpointTTL), addresses: denied})
	e.lookup.Lock() // a lookup in progress
	if got := e.resolve(); !slices.Equal(got, denied) || lookups > 0 {
		t.Errorf("during a lookup: %v after %d lookups", got, lookups)
	}
	e.lookup.Unlock()
	if got := e.resolve(); !slices.Equal(got, denied) || lookups == 0 {
		t.Errorf("after a failed lookup: %v after %d lookups, want the earlier addresses", got, lookups)
	}
	if failed := lookups; !slices.Equal(e.resolve(), denied) || lookups != failed {
		t.Error("a failed lookup is repeated at once")
	}
}
