package app

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook/sender"
	"github.com/browser-svc/svc/shared/testenv"
)

// eventReader reads a stream of server-sent events.
type eventReader struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Scanner
}

// openEvents opens the event stream as the owner.
func openEvents(s *leakSearch, v tenant, token, lastID, query string, want int) *eventReader {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+"/v1/events"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + token}}
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	answer, err := s.checked.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != want {
		s.t.Fatalf("%s in organization %s: status %d, want %d", r.URL, v["organizationId"], answer.StatusCode, want)
	}
	return &eventReader{s.t, answer, bufio.NewScanner(answer.Body)}
}

// next returns the id and the type of the next event, and false at the end of the stream.
func (r *eventReader) next() (id, kind string, ok bool) {
	r.t.Helper()
	for r.lines.Scan() {
		switch name, value, _ := strings.Cut(r.lines.Text(), ": "); name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			var event struct{ ID, Type string }
			if err := json.Unmarshal([]byte(value), &event); err != nil || event.ID != id || event.Type != kind {
				r.t.Errorf("the data of %s %s is %s", kind, id, value)
			}
			return id, kind, true
		}
	}
	return "", "", false
}

// runWebhooks sends and publishes events until the test ends.
func (h *testEnv) runWebhooks(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { h.parts.webhooks.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// TestEvents_AreStreamed reads the events of changes that are made through the API, and
// continues after one of them.
func TestEvents_AreStreamed(t *testing.T) {
	s := newLeakSearch(t)
	s.runWebhooks(t)
	v := s.tenant()
	token := s.signIn(t, v, "owner")
	first := openEvents(s, v, token, "", "", http.StatusOK)
	openEvents(s, v, token, v["keyId"], "", http.StatusNotFound)
	s.ask(v, "owner", http.MethodDelete, v.fill("/v1/organizations/{organizationId}/api-keys/{keyId}"), "", http.StatusOK)
	revoked, kind, _ := first.next()
	if kind != "key.revoked" {
		t.Fatalf("got %s", kind)
	}
	report := func(method, path, body, events string, want int) string {
		return s.ask(v, "", method, v.fill(path), v.fill(strings.TrimSuffix(body, "}")+`, "events": [`+events+`]}`), want)
	}
	start := func(events string, want int) string {
		return report(http.MethodPost, "/v1/profiles/{profileId}/sessions", `{"sessionId": "{sessionId}", "slotId": "{slotId}", "machineId": "machine-{mark}",
			"bootId": "{bootId}", "seq": 11, "launchId": "{sessionId}", "browserVersion": 156, "startedAt": "2026-11-21T10:15:00Z"}`, events, want)
	}
	requested := `{"id": "` + uuid.NewString() + `", "type": "handover.requested", "at": "2026-11-21T10:15:00Z", "reason": "Solve the captcha.", "until": "2026-11-21T10:25:00Z"}`
	done := `{"id": "` + uuid.NewString() + `", "type": "handover.done", "at": "2026-11-21T10:15:00Z"}`
	if refusal := start(requested+", "+done, http.StatusBadRequest); !strings.Contains(refusal, `"events[1].outcome"`) || !strings.Contains(refusal, `"events[1].seconds"`) {
		t.Errorf("the refusal is %s", refusal)
	}
	start("", http.StatusCreated)
	start(requested, http.StatusCreated)
	end := func(events string, want int) {
		report(http.MethodDelete, "/v1/profiles/{profileId}/sessions/{sessionId}", `{"endedAt": "2026-11-21T10:16:00Z", "status": "exited", "endReason": "client_close"}`, events, want)
	}
	end(done, http.StatusBadRequest)
	end("", http.StatusOK)
	start(requested+`, {"id": "`+uuid.NewString()+`", "type": "session.expiring", "at": "2026-11-21T10:15:00Z", "reason": "idle", "until": "2026-11-21T10:25:00Z"}`, http.StatusConflict)
	ready := `{"id": "` + uuid.NewString() + `", "type": "recording.ready", "at": "2026-11-21T10:16:00Z", "parts": ["video"], "state": "complete"}`
	end(ready, http.StatusOK)
	end(ready, http.StatusOK)
	for name, stream := range map[string]*eventReader{"the stream": first, "a later one": openEvents(s, v, token, revoked, "", http.StatusOK)} {
		for _, want := range []string{"session.started", "handover.requested", "session.ended", "session.expiring", "recording.ready"} {
			if _, kind, _ := stream.next(); kind != want {
				t.Errorf("%s: got %s, want %s", name, kind, want)
			}
		}
	}
	short := openEvents(s, v, token, "", "?waitSeconds=1", http.StatusOK)
	if _, kind, ok := short.next(); ok {
		t.Errorf("got %s", kind)
	}
	busy := s.tenant()
	owner := s.signIn(t, busy, "owner")
	for range 20 {
		openEvents(s, busy, owner, "", "", http.StatusOK)
	}
	openEvents(s, busy, owner, "", "", http.StatusTooManyRequests)
	s.parts.webhooks.StopStreams()
	if _, kind, ok := first.next(); ok {
		t.Errorf("after the end of the program: %s", kind)
	}
}

// TestEvents_EndWithTheAccessOfTheirReader takes away the access of open streams.
func TestEvents_EndWithTheAccessOfTheirReader(t *testing.T) {
	s := newLeakSearch(t)
	s.parts.webhooks.Options.Check = 20 * time.Millisecond
	for name, test := range map[string]struct{ user, change string }{
		"revoked token":  {"", `DELETE FROM access_tokens WHERE id = '{tokenId}'`},
		"smaller scopes": {"", `UPDATE access_tokens SET scopes = '{profiles:read}' WHERE id = '{tokenId}'`},
		"smaller role":   {"admin", `UPDATE memberships SET role = 'member' WHERE user_id = '{adminId}'`},
		"removed member": {"admin", `DELETE FROM memberships WHERE user_id = '{adminId}'`},
		"ended session":  {"admin", `DELETE FROM auth_sessions WHERE user_id = '{adminId}'`},
	} {
		v := s.tenant()
		token := v["token"] + "all"
		if test.user != "" {
			token = s.signIn(t, v, test.user)
		} else {
			s.all.MustExec(v.fill(`UPDATE access_tokens SET scopes = '{webhooks:read}' WHERE id = '{tokenId}'`))
		}
		stream := openEvents(s, v, token, "", "", http.StatusOK)
		for stream.lines.Scan() && stream.lines.Text() != ": alive" { // so a caller with access passes the check
		}
		s.all.MustExec(v.fill(test.change))
		if _, kind, ok := stream.next(); ok || stream.lines.Err() != nil {
			t.Errorf("%s: got %q, %v, want the end of the stream", name, kind, stream.lines.Err())
		}
	}
}

// deadlines is a response that records its write deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	all []time.Time
}

// SetWriteDeadline is used by http.ResponseController.
func (d *deadlines) SetWriteDeadline(deadline time.Time) error {
	d.all = append(d.all, deadline)
	return nil
}

// TestEvents_EndWithoutDeadline: the server writes the end of the response after the
// handler, and the next response on the connection has its own time.
func TestEvents_EndWithoutDeadline(t *testing.T) {
	s := newLeakSearch(t)
	v := s.tenant()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/events?waitSeconds=1", nil)
	r.Header = http.Header{"Authorization": {"Bearer " + s.signIn(t, v, "owner")}}
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	s.server.Config.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK || len(w.all) < 2 || w.all[0].IsZero() || !w.all[len(w.all)-1].IsZero() {
		t.Errorf("status %d, the deadlines are %v", w.Code, w.all)
	}
}

// TestWebhooks_DeliverEventsOfTheAPI creates an endpoint through the API, and verifies the
// request that it gets, with the library of the specification.
func TestWebhooks_DeliverEventsOfTheAPI(t *testing.T) {
	type request struct {
		header http.Header
		body   []byte
	}
	requests := make(chan request, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Header, body}
	}))
	t.Cleanup(receiver.Close)
	s := newLeakSearch(t)
	s.parts.webhooks.Sender, s.parts.webhooks.AllowHTTP = sender.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), true
	s.runWebhooks(t)
	v := s.tenant()
	var created struct {
		Data struct {
			Secret   string
			Endpoint struct{ ID string }
		}
	}
	text := s.ask(v, "admin", http.MethodPost, "/v1/webhooks/endpoints", `{"url": "`+receiver.URL+`/x", "types": ["key.revoked"]}`, http.StatusCreated)
	if err := json.Unmarshal([]byte(text), &created); err != nil {
		t.Fatal(err)
	}
	endpoint := "/v1/webhooks/endpoints/" + created.Data.Endpoint.ID
	s.values = append(s.values, created.Data.Secret)
	s.ask(v, "owner", http.MethodDelete, v.fill("/v1/organizations/{organizationId}/api-keys/{keyId}"), "", http.StatusOK)
	verifier, err := standardwebhooks.NewWebhook(created.Data.Secret)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-requests:
		if err := verifier.Verify(got.body, got.header); err != nil || !strings.Contains(string(got.body), v["keyId"]) {
			t.Errorf("%s with %v: %v", got.body, got.header, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no request")
	}
	testenv.Eventually(t, "the delivery is listed", func() bool {
		return strings.Contains(s.ask(v, "owner", http.MethodGet, endpoint+"/deliveries?state=delivered", "", http.StatusOK), `"responseStatus":200`)
	})
	var list struct {
		Data struct {
			Items []struct {
				DurationMs *int
				Data       map[string]any
			}
		}
	}
	text = s.ask(v, "owner", http.MethodGet, endpoint+"/deliveries", "", http.StatusOK)
	if err := json.Unmarshal([]byte(text), &list); err != nil || list.Data.Items[0].DurationMs == nil || list.Data.Items[0].Data["keyId"] != v["keyId"] {
		t.Errorf("the delivery is %s", text)
	}
	s.ask(v, "owner", http.MethodGet, "/v1/webhooks/endpoints?sortBy=url", "", http.StatusOK)
	s.ask(v, "owner", http.MethodPatch, endpoint, `{"enabled": false}`, http.StatusOK)
	s.ask(v, "owner", http.MethodPost, endpoint+"/test", `{}`, http.StatusConflict)
	s.ask(v, "owner", http.MethodPost, "/v1/webhooks/endpoints", `{"url": "https://user@hooks.example.com"}`, http.StatusBadRequest)
	s.ask(v, "member", http.MethodGet, endpoint, "", http.StatusForbidden)
	s.ask(v, "owner", http.MethodDelete, endpoint, "", http.StatusOK)
	s.ask(v, "owner", http.MethodGet, endpoint, "", http.StatusNotFound)
	s.checkLog()
}

// TestClientsDocument_ReceiverVerifiesRequests runs the receiver of CLIENTS.md.
func TestClientsDocument_ReceiverVerifiesRequests(t *testing.T) {
	document, err := os.ReadFile("../../../openapi/CLIENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "## Webhooks and the event stream")
	_, code, _ := strings.Cut(section, "```js\n")
	code, _, found := strings.Cut(code, "```")
	if !found {
		t.Fatal("CLIENTS.md has no receiver")
	}
	s := newLeakSearch(t)
	s.parts.webhooks.Sender, s.parts.webhooks.AllowHTTP = sender.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), true
	s.parts.webhooks.Options.Backoff = 100 * time.Millisecond // the receiver starts meanwhile
	s.runWebhooks(t)
	v := s.tenant()
	port := strconv.Itoa(testenv.FreePort(t))
	var created struct {
		Data struct {
			Secret   string
			Endpoint struct{ ID string }
		}
	}
	text := s.ask(v, "admin", http.MethodPost, "/v1/webhooks/endpoints", `{"url": "http://127.0.0.1:`+port+`"}`, http.StatusCreated)
	if err := json.Unmarshal([]byte(text), &created); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "receiver.mjs")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var output testenv.Log
	receiver := exec.CommandContext(ctx, "node", file)
	receiver.Env = append(os.Environ(), "PORT="+port, "WEBHOOK_SECRET="+created.Data.Secret)
	receiver.Stdout, receiver.Stderr = &output, &output
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = receiver.Wait()
	})
	testenv.Eventually(t, "the receiver listens", func() bool {
		answer, err := http.Post("http://127.0.0.1:"+port, "application/json", strings.NewReader("{}"))
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a request without a signature: %s", answer.Status)
		}
		return true
	})
	endpoint := "/v1/webhooks/endpoints/" + created.Data.Endpoint.ID
	s.ask(v, "owner", http.MethodPost, endpoint+"/test", `{}`, http.StatusOK)
	testenv.Eventually(t, "the receiver accepts the test", func() bool {
		return strings.Contains(s.ask(v, "owner", http.MethodGet, endpoint+"/deliveries?state=delivered", "", http.StatusOK), `"responseStatus":204`)
	})
	if !strings.Contains(output.String(), `"type":"webhook.test"`) {
		t.Errorf("the output is %s", output.String())
	}
}
