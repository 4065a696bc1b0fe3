package replay_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestReplay_PanicReleasesKey(t *testing.T) {
	h := newTestServer(t)
	h.do = func(_ context.Context, call int) error {
		if call == 1 {
			panic("oh")
		}
		return nil
	}
	first := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, "k")
	second := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, "k")
	if first.status != 500 || second.status != 201 || second.replayed {
		t.Errorf("%d, then %d, replayed %v", first.status, second.status, second.replayed)
	}
}

func TestReplay_ConcurrentDuplicateIsConflictThenReplayed(t *testing.T) {
	h := newTestServer(t)
	entered, finish := make(chan struct{}), make(chan struct{})
	h.do = func(context.Context, int) error { close(entered); <-finish; return nil }
	first := make(chan reply)
	go func() {
		first <- h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, "k")
	}()
	await(t, entered)
	during := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, "k")
	if during.status != 409 || during.header.Get("Retry-After") == "" || during.replayed {
		t.Errorf("meanwhile: %d, Retry-After %q", during.status, during.header.Get("Retry-After"))
	}
	close(finish)
	done := <-first
	after := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, "k")
	if done.status != 201 || !after.replayed || after.body != done.body || h.count() != 1 {
		t.Errorf("afterwards: %d, then replayed %v, after %d calls", done.status, after.replayed, h.count())
	}
}

// await waits until the channel is closed.
func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("timeout waiting for the channel")
	}
}

func TestReplay_DisconnectedClientGetsAnswerOnRetry(t *testing.T) {
	h := newTestServer(t)
	entered, finished := make(chan struct{}), make(chan error, 1)
	h.do = func(ctx context.Context, call int) error {
		if call == 1 {
			close(entered)
			<-ctx.Value(originKey{}).(context.Context).Done() // the server has noticed the disconnect
			finished <- ctx.Err()
		}
		return ctx.Err()
	}
	impatient, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(impatient, "POST", h.url+organizations, strings.NewReader(engines))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", bearer(ada, home))
	r.Header.Set(keyName, "k")
	gone := make(chan error)
	go func() {
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			res.Body.Close()
		}
		gone <- err
	}()
	await(t, entered)
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("the client got %v", err)
	}
	if err := <-finished; err != nil {
		t.Errorf("the operation was cancelled: %v", err)
	}
	var again reply
	for deadline := time.Now().Add(10 * time.Second); !again.replayed && time.Now().Before(deadline); {
		again = h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, "k")
	}
	if again.status != 201 || !again.replayed || h.count() != 1 {
		t.Errorf("%d, replayed %v, after %d calls", again.status, again.replayed, h.count())
	}
}
