package gate_test

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/gate"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

func TestLinksAreMadeOfTheConfiguredAddress(t *testing.T) {
	tickets := ticket.New(clock.System{})
	for public, want := range map[string]struct{ web, socket string }{
		"http://worker.example:38923":      {"http://worker.example:38923/browsers/" + launch, "ws://worker.example:38923/browsers/" + launch},
		"https://edge.example/w/worker-1/": {"https://edge.example/w/worker-1/browsers/" + launch, "wss://edge.example/w/worker-1/browsers/" + launch},
	} {
		links := gate.Links{Address: addressOf(t, public), Tokens: tickets}
		set, err := links.Of(launch, "/devtools/browser/a-b", true)
		if err != nil {
			t.Fatal(err)
		}
		if err := tickets.Verify(set.ControlToken, launch, ticket.Control); err != nil {
			t.Error(err)
		}
		query := "?ct=" + set.ControlToken
		if diff := cmp.Diff(gate.Set{
			ControlToken: set.ControlToken, WebSocket: want.socket + "/devtools/browser/a-b" + query,
			DevTools: want.web + "/devtools" + query, View: want.web + "/view" + query, Page: want.web + "/" + query,
		}, set); diff != "" {
			t.Error(diff)
		}
		if without, err := links.Of(launch, "/devtools/browser/a-b", false); err != nil || without.DevTools != "" {
			t.Errorf("a build without a front end: %q %v", without.DevTools, err)
		}
	}
}

func TestAnAddressWithoutAPathOfItsOwnGetsOne(t *testing.T) {
	public, err := url.Parse("https://edge.example")
	if err != nil {
		t.Fatal(err)
	}
	address := gate.NewAddress(public.JoinPath("w", "worker-1"))
	if got, want := address.BrowserPath("x"), "/w/worker-1/browsers/x/"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
}
