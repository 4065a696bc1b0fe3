// Package cloudtest gives the worker's tests a cloud: a standin that ends with
// the test and fails it for what no worker may do.
package cloudtest

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/fakecloud"
)

// Key is the organization key that opens the cloud.
const Key = fakecloud.Key

// Operation is one of those that a worker calls.
type Operation = fakecloud.Operation

// The operations. A call of any other fails the test.
const (
	Authorize = fakecloud.Authorize
	Start     = fakecloud.Start
	End       = fakecloud.End
	Heartbeat = fakecloud.Heartbeat
	Config    = fakecloud.Config
	Sessions  = fakecloud.Sessions
	Reclaim   = fakecloud.Reclaim
)

// Call is a request that was understood and taken in.
type Call = fakecloud.Call

// Cloud is a running cloud. It is safe for concurrent use.
type Cloud struct{ *fakecloud.Cloud }

// New starts a cloud that grants without limit; it ends with the test.
func New(t testing.TB) *Cloud {
	t.Helper()
	c, err := fakecloud.Open(t.Context(), func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &Cloud{c}
}

// Await waits until the cloud holds so many slots, and fails the test after five
// seconds.
func (c *Cloud) Await(t testing.TB, reserved, running int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		isReserved, isRunning := c.Slots()
		if isReserved == reserved && isRunning == running {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cloud holds %d reserved and %d running slots, want %d and %d", isReserved, isRunning, reserved, running)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Answer stands in for the cloud's own. One that writes nothing goes before it.
type Answer = fakecloud.Answer

// Raw answers with exactly this.
func Raw(status int, contentType, body string) Answer {
	return fakecloud.Raw(status, contentType, body)
}

// JSON answers with exactly this body.
func JSON(status int, body string) Answer { return fakecloud.JSON(status, body) }

// Failure answers with the failure envelope of a kind.
func Failure(kind fault.Kind, message string, details ...fault.Detail) Answer {
	return fakecloud.Failure(kind, message, details...)
}

// Reset breaks the connection without a word.
func Reset(w http.ResponseWriter, r *http.Request) { fakecloud.Reset(w, r) }

// Truncated promises a longer body than it sends.
func Truncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"success":true,"data":{"allowed":true,`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// Slow waits before the cloud's own answer, or until the caller has gone.
func Slow(wait time.Duration) Answer {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
		}
	}
}

// Until waits for the context before the cloud's own answer, or until the caller
// has gone.
func Until(until context.Context) Answer {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-until.Done():
		case <-r.Context().Done():
		}
	}
}
