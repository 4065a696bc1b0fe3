package proxy

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndpoint_DoesNotWaitForLaterLookup lets a name server hang after the first lookup: connections of other browsers
// are checked with the earlier addresses meanwhile.
func TestEndpoint_DoesNotWaitForLaterLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookups := 0
		hanging := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			lookups++
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		denied := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		e := &endpoint{name: "cloud.example.com", port: 443, resolver: hanging}
		e.last.Store(&resolution{time: time.Now(), addresses: denied})
		time.Sleep(2 * endpointTTL)
		refreshed := make(chan []netip.Addr)
		go func() { refreshed <- e.resolve() }()
		synctest.Wait() // the lookup hangs
		begin := time.Now()
		if got := e.resolve(); !slices.Equal(got, denied) || !time.Now().Equal(begin) {
			t.Errorf("during a lookup: %v after %s", got, time.Since(begin))
		}
		if got := <-refreshed; !slices.Equal(got, denied) {
			t.Errorf("after a failed lookup: %v, want the earlier addresses", got)
		}
		if failed := lookups; !slices.Equal(e.resolve(), denied) || lookups != failed {
			t.Error("a failed lookup is repeated at once")
		}
	})
}
