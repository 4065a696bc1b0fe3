// Package cloudtest runs a fake cloud for tests of the worker. It ends with the test
// and fails the test if the worker violates the contract.
package cloudtest

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/testing/fakecloud"
)

// Key is the valid organization key.
const Key = fakecloud.Key

// Operation is an operation that a worker may call.
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

// Call is an accepted request.
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

// Await waits until the cloud has this many slots. It fails the test after five
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
			t.Fatalf("the cloud has %d reserved and %d running slots, want %d and %d", isReserved, isRunning, reserved, running)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Answer replaces the fake cloud's answer. If it writes nothing, the fake cloud
// answers afterwards.
type Answer = fakecloud.Answer

// Raw answers with this status, content type and body.
func Raw(status int, contentType, body string) Answer {
	return fakecloud.Raw(status, contentType, body)
}

// JSON answers with this status and JSON body.
func JSON(status int, body string) Answer { return fakecloud.JSON(status, body) }

// Failure answers with the failure envelope of a kind.
func Failure(kind fault.Kind, message string, details ...fault.Detail) Answer {
	return fakecloud.Failure(kind, message, details...)
}

// Reset resets the connection without an answer.
func Reset(w http.ResponseWriter, r *http.Request) { fakecloud.Reset(w, r) }

// Truncated sends less than its Content-Length.
func Truncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"success":true,"data":{"allowed":true,`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// Slow delays the fake cloud's answer, at most until the caller disconnects.
func Slow(wait time.Duration) Answer {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
		}
	}
}

// Until delays the fake cloud's answer until the context ends or the caller
// disconnects.
func Until(until context.Context) Answer {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-until.Done():
		case <-r.Context().Done():
		}
	}
}
