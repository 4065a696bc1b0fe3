package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// testWebhooks manages an endpoint, which receives test events that are signed with the
// secret that the page has shown.
func (e dashboardTest) testWebhooks(t *testing.T) {
	var mu sync.Mutex
	var received []func(*standardwebhooks.Webhook) error
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/failing" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		received = append(received, func(verifier *standardwebhooks.Webhook) error { return verifier.Verify(body, r.Header) })
	}))
	t.Cleanup(hook.Close)
	var result struct {
		Found  []string
		Secret string
	}
	decode(t, e.run(t, "webhooks", map[string]any{
		"user": e.quiet.credentials(), "hook": hook.URL, "unreachable": strings.Replace(hook.URL, "127.0.0.1", "127.0.0.2", 1),
	}), &result)
	reportFindings(t, result.Found)
	verifier, err := standardwebhooks.NewWebhook(result.Secret)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(received) < 2 { // the first test, and the one that was sent again
		t.Errorf("the endpoint has received %d events", len(received))
	}
	for _, verify := range received {
		if err := verify(verifier); err != nil {
			t.Error(err)
		}
	}
}

// openEvents opens the event stream of the organization.
func (e dashboardTest) openEvents(t *testing.T) *bufio.Scanner {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.cloud.url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+e.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the event stream is answered with %d", answer.StatusCode)
	}
	return bufio.NewScanner(answer.Body)
}

// nextEvent returns the data of the next event of a type and a session.
func nextEvent(t *testing.T, stream *bufio.Scanner, kind string, session uuid.UUID) map[string]any {
	t.Helper()
	for stream.Scan() {
		var event struct {
			Type string
			Data map[string]any
		}
		if text, ok := strings.CutPrefix(stream.Text(), "data: "); ok {
			decode(t, json.RawMessage(text), &event)
		}
		if event.Type == kind && event.Data["sessionId"] == session.String() {
			return event.Data
		}
	}
	t.Fatalf("the stream has no %s: %v", kind, stream.Err())
	return nil
}
