package access_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

func TestLinks_UseConfiguredAddress(t *testing.T) {
	tickets := ticket.New(clock.System{})
	tickets.Begin(launch)
	for public, want := range map[string]struct{ web, socket string }{
		"http://worker.example:38923":      {"http://worker.example:38923/browsers/" + launch, "ws://worker.example:38923/browsers/" + launch},
		"https://edge.example/w/worker-1/": {"https://edge.example/w/worker-1/browsers/" + launch, "wss://edge.example/w/worker-1/browsers/" + launch},
	} {
		links := access.Links{Address: addressOf(t, public), Tokens: tickets}
		set, err := links.ForLaunch(launch, "/devtools/browser/a-b", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tickets.Verify(set.ControlToken, launch, ticket.Control); err != nil {
			t.Error(err)
		}
		query := "?ct=" + set.ControlToken
		if diff := cmp.Diff(access.URLs{
			ControlToken: set.ControlToken, Expires: set.Expires, WebSocket: want.socket + "/devtools/browser/a-b" + query,
			DevTools: want.web + "/devtools" + query, View: want.web + "/view" + query, Page: want.web + "/" + query,
		}, set); diff != "" {
			t.Error(diff)
		}
		if without, err := links.ForLaunch(launch, "/devtools/browser/a-b", false); err != nil || without.DevTools != "" {
			t.Errorf("a build without a front end: got DevTools URL %q, error %v", without.DevTools, err)
		}
	}
}

// TestLinks_CarryOneToken is specification 5.5.1.
func TestLinks_CarryOneToken(t *testing.T) {
	tickets := ticket.New(clock.System{})
	tickets.Begin(launch)
	links := access.Links{Address: addressOf(t, "http://worker.example:38923"), Tokens: tickets}
	forLaunch := func() access.URLs {
		set, err := links.ForLaunch(launch, "/devtools/browser/a-b", true)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	first := forLaunch()
	if diff := cmp.Diff(first, forLaunch()); diff != "" {
		t.Errorf("the second call returned other URLs (-first +second):\n%s", diff)
	}
	claims, err := tickets.Verify(first.ControlToken, launch, ticket.Control)
	if err != nil || !claims.Expires.Equal(first.Expires) || !tickets.Spend(launch, claims, ticket.BrowserPage) {
		t.Fatalf("%+v: %v", claims, err)
	}
	spent := forLaunch()
	if spent.ControlToken != first.ControlToken || spent.WebSocket != first.WebSocket {
		t.Error("a spent token was replaced in URLs that open no page")
	}
	_, fresh, _ := strings.Cut(spent.Page, "?ct=")
	if fresh == first.ControlToken || !strings.HasSuffix(spent.DevTools, fresh) || spent.View != first.View {
		t.Errorf("got page URLs %+v", spent)
	}
	if diff := cmp.Diff(spent, forLaunch()); diff != "" {
		t.Errorf("the second call returned other URLs (-first +second):\n%s", diff)
	}
	for name, visit := range map[string]access.AuthorizedRequest{
		"the worker key": {}, "a token that has opened a page": {Token: first.ControlToken, Claims: claims},
	} {
		visit.LaunchID = launch
		token, errToken := links.TokenFor(visit)
		page, errPage := links.PageTokenFor(visit)
		if token != first.ControlToken || page != fresh || errToken != nil || errPage != nil {
			t.Errorf("%s: %v, %v", name, errToken, errPage)
		}
	}
}

func TestAddress_NormalizesPath(t *testing.T) {
	public, err := url.Parse("https://edge.example")
	if err != nil {
		t.Fatal(err)
	}
	address := access.NewAddress(public.JoinPath("w", "worker-1"))
	if got, want := address.BrowserPath("x"), "/w/worker-1/browsers/x/"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
}
