package proxy

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestLocalAddresses_UnreadableAddressesAreLocal(t *testing.T) {
	policy, err := NewEgressPolicy(Rules{})
	if err != nil {
		t.Fatal(err)
	}
	var readErr error
	policy.local.read = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(192, 0, 2, 7), Mask: net.CIDRMask(24, 32)}}, readErr
	}
	own, other := netip.MustParseAddrPort("192.0.2.7:80"), netip.MustParseAddrPort("192.0.2.8:80")
	readErr = errors.New("too many open files")
	if !policy.deniesAddress("own.test", own) {
		t.Error("an address of this machine is allowed while the addresses cannot be read")
	}
	readErr = nil
	if !policy.deniesAddress("own.test", own) || policy.deniesAddress("other.test", other) {
		t.Error("the addresses were not read again")
	}
	readErr = errors.New("too many open files")
	policy.local.readAt = time.Now().Add(-localAddressesTTL)
	if !policy.deniesAddress("own.test", own) || policy.deniesAddress("other.test", other) {
		t.Error("the last addresses are not kept")
	}
}
