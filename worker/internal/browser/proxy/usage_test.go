package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// item returns the usage of a host; the zero value if it is not listed.
func item(f *proxy.Forwarder, host string) proxy.HostUsage {
	for _, item := range f.Usage(2000).Hosts {
		if item.Host == host {
			return item
		}
	}
	return proxy.HostUsage{}
}

func TestUsage_CountsOpenTunnels(t *testing.T) {
	destination := listenLoopback(t)
	go serve(destination, func(c net.Conn) error {
		_, err := io.Copy(c, c)
		return err
	})
	policy := newPolicy(t, "")
	f, _ := startForwarder(t, policy)
	_, port, _ := net.SplitHostPort(destination.Addr().String())
	c, reader := connect(t, f, "LocalHost:"+port)
	var total int64
	for _, size := range []int{1, 1000, 1 << 20} {
		go c.Write(make([]byte, size))
		if _, err := io.ReadFull(reader, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		total += int64(size)
		eventually(t, 5*time.Second, "the bytes of the open tunnel", func() bool {
			found := item(f, "localhost")
			return found.Connections == 1 && found.Sent == total && found.Received == total && found.Proxy == ""
		})
	}
	c.Close()
	eventually(t, 5*time.Second, "the tunnel ends", func() bool {
		received, sent := policy.Transferred()
		return received == total && sent == total
	})
	if found := item(f, "localhost"); found.Sent != total || found.Received != total {
		t.Errorf("after the end: %+v, want %d", found, total)
	}
}

func TestUsage_CountsPlainRequestsByHost(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	for _, kind := range append([]string{"direct"}, kinds...) {
		t.Run(kind, func(t *testing.T) {
			f, _ := startForwarder(t, newPolicy(t, ""))
			hosts := []string{"localhost", "127.0.0.1"}
			_, port, _ := net.SplitHostPort(hostOf(t, origin.URL))
			upstream := proxy.Upstream{}
			if kind != "direct" {
				upstream = newFakeInternet(t, kind, hostOf(t, origin.URL)).Upstream
				upstream.Bypass = "<-loopback>"
				if err := f.SetUpstream(&upstream); err != nil {
					t.Fatal(err)
				}
				hosts = []string{"a.test", "b.test"}
			}
			client := clientOf(t, f)
			for i, host := range hosts {
				for range 3 { // on a connection that the hosts share, if the upstream allows it
					do(t, client, "POST", fmt.Sprintf("http://%s:%s/", host, port), strings.Repeat("x", (i+1)*100<<10))
				}
			}
			for i, host := range hosts {
				found, least := item(f, host), int64(3*(i+1)*100<<10)
				if found.Connections != 3 || found.Sent < least || found.Sent > least+10_000 || found.Received < least || found.Received > least+10_000 {
					t.Errorf("%s: %+v, want a little more than %d", host, found, least)
				}
				if want := strings.TrimPrefix(upstream.Server, kind+"://"); found.Proxy != want || f.Usage(2000).Proxy != want {
					t.Errorf("%s: proxy %q, of all %q; want %q", host, found.Proxy, f.Usage(2000).Proxy, want)
				}
			}
		})
	}
}

func TestUsage_CountsDenials(t *testing.T) {
	f, _ := startForwarder(t, newPolicy(t, "denied.test"))
	rules, err := netrules.NewPolicy(netrules.Level{Name: "launch", Rules: &netrules.Rules{Connect: &netrules.Filter{Deny: []string{"*.ads.test"}}}})
	if err != nil {
		t.Fatal(err)
	}
	f.SetRules(rules)
	for _, target := range []string{"denied.test:443", "A.ads.test:443", "a.ads.test:8443"} {
		ask(t, dial(t, f), "CONNECT", target+" HTTP/1.1\nHost: "+target)
	}
	do(t, clientOf(t, f), "GET", "http://a.ads.test/", "")
	f.CountDenied("data:", netrules.Verdict{Denied: true, Level: "profile", Rule: "navigate.allow"})
	for host, want := range map[string]proxy.RuleCount{
		"denied.test": {"worker", "egress policy", 1}, "a.ads.test": {"launch", "connect.deny: *.ads.test", 3}, "data:": {"profile", "navigate.allow", 1},
	} {
		found := item(f, host)
		if len(found.Rules) != 1 || found.Rules[0] != want || found.Denied != want.Count || found.Connections != 0 {
			t.Errorf("%s: %+v, want %+v", host, found, want)
		}
	}
	if usage := f.Usage(2000); usage.Denied != 5 || len(usage.Hosts) != 3 {
		t.Errorf("usage: %+v", usage)
	}
}

func TestUsage_IsBounded(t *testing.T) {
	f, _ := startForwarder(t, newPolicy(t, ""))
	for i := range 1500 {
		f.CountDenied(fmt.Sprintf("host-%d.test:443", i), netrules.Verdict{Denied: true, Level: "launch", Rule: "connect.allow"})
	}
	for i := range 50 {
		f.CountDenied("host-1.test", netrules.Verdict{Denied: true, Level: "launch", Rule: fmt.Sprint("navigate.deny: ", i)})
	}
	for _, host := range []string{strings.Repeat("x", 300), "."} {
		f.CountDenied(host, netrules.Verdict{Denied: true, Level: "launch", Rule: "connect.allow"})
	}
	usage := f.Usage(2000)
	if len(usage.Hosts) != 1001 || usage.Denied != 1552 {
		t.Errorf("%d hosts, %d denied", len(usage.Hosts), usage.Denied)
	}
	if other := item(f, proxy.Other); other.Denied != 502 {
		t.Errorf("the others: %+v", other)
	}
	if found := item(f, "host-1.test"); found.Denied != 51 || len(found.Rules) != 21 {
		t.Errorf("a host with many rules: %d denied, %d rules", found.Denied, len(found.Rules))
	}
	top := f.Usage(100)
	if len(top.Hosts) != 100 || top.Denied != 1552 || top.Hosts[0].Host != proxy.Other || top.Hosts[0].Denied != 1552-51-98 || len(top.Hosts[0].Rules) != 1 {
		t.Errorf("%d hosts, %d denied, first %+v", len(top.Hosts), top.Denied, top.Hosts[0])
	}
}
