package view_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/api/view"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// closeStatus waits for the end of a stream and returns its close status.
func closeStatus(t testing.TB, conn *ws.Conn) ws.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return ws.CloseStatus(err)
		}
	}
}

func mustDial(t testing.TB, w *testServer, query string) *ws.Conn {
	t.Helper()
	conn, err := w.dial(t, query)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestStream_TicketGivesNoControl(t *testing.T) {
	s := &idleStreamer{}
	w := newTestServer(t, "", view.Options{Streamer: s}, access.Browser{})
	mustDial(t, w, "t="+w.token(t, ticket.View))
	accesses := func() []bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Clone(s.controls)
	}
	testenv.Eventually(t, "a stream", func() bool { return len(accesses()) == 1 })
	mustDial(t, w, "ct="+w.token(t, ticket.Control))
	testenv.Eventually(t, "another stream", func() bool { return len(accesses()) == 2 })
	if got := accesses(); got[0] || !got[1] {
		t.Errorf("control: %v", got)
	}
	if n := w.browser.Activity.Clients(); n != 2 {
		t.Errorf("got %d clients", n)
	}
	_, err := w.dial(t, "t=wrong")
	if refused, ok := err.(*ws.RefusedError); !ok || refused.Status != http.StatusForbidden || refused.Body != "forbidden" { //nolint:errorlint // the error is not wrapped
		t.Errorf("a wrong ticket: %v", err)
	}
}

func TestStream_OutlivesTicket(t *testing.T) {
	w := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}}, access.Browser{})
	query := "t=" + w.token(t, ticket.View)
	conn := mustDial(t, w, query)
	w.clock.Advance(ticket.ViewTTL + time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() { _, _, _ = conn.Read(ctx) }() // reading is required for the answer to the ping
	if err := conn.Ping(ctx); err != nil {
		t.Error(err)
	}
	if _, err := w.dial(t, query); err == nil {
		t.Error("an expired ticket opened a stream")
	}
}

func TestStream_WatcherIsNotActivity(t *testing.T) {
	w := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}, MaxViewers: 2}, access.Browser{})
	meter := w.browser.Activity
	clients := func(n int) {
		t.Helper()
		testenv.Eventually(t, fmt.Sprintf("%d clients", n), func() bool { return meter.Clients() == n })
	}
	began, ticketed := meter.Last(), "t="+w.token(t, ticket.View)
	w.clock.Advance(time.Minute)
	first, second := mustDial(t, w, ticketed), mustDial(t, w, ticketed)
	clients(2)
	if got := closeStatus(t, mustDial(t, w, ticketed)); got != 1013 {
		t.Errorf("a third stream ended with status %d", got)
	}
	for _, conn := range []*ws.Conn{first, second} {
		if err := conn.Write(t.Context(), ws.Binary, []byte("anything")); err != nil {
			t.Fatal(err)
		}
	}
	first.CloseNow()
	clients(1) // all its input has been read
	if got := meter.Last(); !got.Equal(began) {
		t.Errorf("watching was counted as activity %v later", got.Sub(began))
	}

	driver := mustDial(t, w, "ct="+w.token(t, ticket.Control))
	clients(2)
	testenv.Eventually(t, "input is activity", func() bool { return meter.Last().Equal(w.clock.Now()) })
	came := w.clock.Now()
	w.clock.Advance(time.Minute)
	if got := meter.Last(); !got.Equal(came) {
		t.Errorf("an open stream was counted as activity %v later", got.Sub(came))
	}
	driver.CloseNow()
	clients(1)
	testenv.Eventually(t, "disconnecting is activity", func() bool { return meter.Last().Equal(w.clock.Now()) })
}

func TestStream_WatchersDoNotUseControlSlots(t *testing.T) {
	w := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}, MaxViewers: 1}, access.Browser{})
	watcher := mustDial(t, w, "t="+w.token(t, ticket.View))
	testenv.Eventually(t, "a stream", func() bool { return w.browser.Activity.Clients() == 1 })
	mustDial(t, w, "ct="+w.token(t, ticket.Control))
	testenv.Eventually(t, "another", func() bool { return w.browser.Activity.Clients() == 2 })
	watcher.CloseNow()
	testenv.Eventually(t, "the end of the first stream", func() bool { return w.browser.Activity.Clients() == 1 })
}

func TestStream_SlotIsFreedWhenViewerLeaves(t *testing.T) {
	w := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}, MaxViewers: 1}, access.Browser{})
	query := "ct=" + w.token(t, ticket.Control)
	first := mustDial(t, w, query)
	if got := closeStatus(t, mustDial(t, w, query)); got != 1013 {
		t.Errorf("the second stream ended with status %d", got)
	}
	first.CloseNow()
	testenv.Eventually(t, "the end of the stream", func() bool { return w.browser.Activity.Clients() == 0 })
	testenv.Eventually(t, "another stream", func() bool { // the slot is free shortly after the client disconnects
		conn, err := w.dial(t, query)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.CloseNow() })
		for range 100 {
			if w.browser.Activity.Clients() == 1 {
				return true
			}
			time.Sleep(time.Millisecond)
		}
		return false
	})
}

func TestStream_CloseStatus(t *testing.T) {
	w := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}}, access.Browser{})
	query := "ct=" + w.token(t, ticket.Control)
	conn := mustDial(t, w, query)
	close(w.browserDone)
	if got := closeStatus(t, conn); got != 4001 {
		t.Errorf("browser ended: got status %d", got)
	}

	w = newTestServer(t, "", view.Options{Streamer: &idleStreamer{}}, access.Browser{})
	query = "ct=" + w.token(t, ticket.Control)
	conn = mustDial(t, w, query)
	testenv.Eventually(t, "a stream", func() bool { return w.browser.Activity.Clients() == 1 })
	closed := make(chan struct{})
	go func() {
		w.Close()
		close(closed)
	}()
	if got := closeStatus(t, conn); got != ws.GoingAway {
		t.Errorf("worker closed: got status %d", got)
	}
	<-closed
	if n := w.browser.Activity.Clients(); n != 0 {
		t.Errorf("%d clients after Close", n)
	}
	if got := get(t, w.path("/vnc?"+query)); got.status != http.StatusServiceUnavailable {
		t.Errorf("after Close: %d %s", got.status, got.body)
	}
}

func TestStream_ClosesSilentViewer(t *testing.T) {
	w := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}, PingEvery: 50 * time.Millisecond}, access.Browser{})
	conn := mustDial(t, w, "ct="+w.token(t, ticket.Control)) // never reads, so it never answers pings
	testenv.Eventually(t, "a stream", func() bool { return w.browser.Activity.Clients() == 1 })
	testenv.Eventually(t, "its end", func() bool { return w.browser.Activity.Clients() == 0 })
	_ = conn
}

func TestPages_HaveCSPAndCachedAssets(t *testing.T) {
	w := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}}, access.Browser{})
	control := []string{"X-Svc-Token", w.token(t, ticket.Control)}
	for _, path := range []string{"/", "/view"} {
		page := get(t, w.path(path), control...)
		policy := page.header.Get("Content-Security-Policy")
		if page.status != 200 || strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") {
			t.Errorf("%s: %d %s", path, page.status, policy)
		}
		if page.header.Get("Referrer-Policy") != "no-referrer" || page.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, page.header)
		}
		parts := regexp.MustCompile(`(?:href|src)="(view/[^"]+)"`).FindAllStringSubmatch(page.body, -1)
		if len(parts) < 4 {
			t.Fatalf("%s has the assets %v", path, parts)
		}
		for _, part := range parts {
			got := get(t, w.path("/"+part[1]), "Cookie", ticket.CookieName(launch, ticket.View)+"="+w.token(t, ticket.View))
			if got.status != 200 || !strings.Contains(got.header.Get("Cache-Control"), "immutable") || got.body == "" {
				t.Errorf("%s: %d %v", part[1], got.status, got.header)
			}
		}
	}
	for _, path := range []string{"/view/", "/view/0000/view.js", "/view/view.js"} {
		if got := get(t, w.path(path), control...); got.status != 404 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

func TestPages_TicketOpensLiveViewOnly(t *testing.T) {
	w := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}}, access.Browser{})
	cookie := []string{"Cookie", ticket.CookieName(launch, ticket.View) + "=" + w.token(t, ticket.View)}
	page := get(t, w.path("/view"), cookie...)
	if page.status != 200 || strings.Contains(page.body, "id=\"control\"") || strings.Contains(page.body, "data-may-control") {
		t.Errorf("%d %s", page.status, page.body)
	}
	if got := get(t, w.path("/"), cookie...); got.status != 404 || got.body != "unknown browser" {
		t.Errorf("the info page: got %d %s", got.status, got.body)
	}
}

func TestAddSlash_RedirectsWithoutCredentials(t *testing.T) {
	w := newTestServer(t, "/w/7", view.Options{Streamer: &idleStreamer{}}, access.Browser{})
	for _, id := range []string{launch, "nobody"} {
		got := get(t, fmt.Sprintf("http://%s/w/7/browsers/%s?ct=x", w.address, id))
		if got.status != http.StatusTemporaryRedirect || got.header.Get("Location") != "./"+id+"/?ct=x" {
			t.Errorf("%d %v", got.status, got.header)
		}
	}
}
