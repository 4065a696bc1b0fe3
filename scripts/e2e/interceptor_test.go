package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// interceptor is a proxy between a worker and its cloud. It can hold the next call
// of a kind, before it reaches the cloud or before the response reaches the worker.
// A held call is aborted when it is released.
type interceptor struct {
	*httptest.Server
	cloud string

	mu   sync.Mutex
	trap *heldCall
}

// heldCall waits for one call.
type heldCall struct {
	call     string // authorize, start or end
	after    bool   // hold the call after the cloud has responded
	reached  chan struct{}
	released chan struct{}
	once     sync.Once
}

// release aborts the held call and disables the trap.
func (tr *heldCall) release() { tr.once.Do(func() { close(tr.released) }) }

func newInterceptor(t *testing.T, cloud string) *interceptor {
	t.Helper()
	c := &interceptor{cloud: cloud}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// intercept sets a trap for the next call with this name.
func (c *interceptor) intercept(call string, after bool) *heldCall {
	tr := &heldCall{call: call, after: after, reached: make(chan struct{}), released: make(chan struct{})}
	c.mu.Lock()
	c.trap = tr
	c.mu.Unlock()
	return tr
}

// takeMatching removes and returns the trap for this call, if there is one.
func (c *interceptor) takeMatching(call string) *heldCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trap == nil || c.trap.call != call {
		return nil
	}
	tr := c.trap
	c.trap = nil
	return tr
}

// callName returns the name of a license call.
func callName(r *http.Request) string {
	switch {
	case r.URL.Path == "/v1/license/authorize":
		return "authorize"
	case strings.Contains(r.URL.Path, "/sessions") && strings.HasPrefix(r.URL.Path, "/v1/profiles/") && r.Method == http.MethodPost:
		return "start"
	case r.Method == http.MethodDelete:
		return "end"
	}
	return ""
}

func (c *interceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tr := c.takeMatching(callName(r))
	if tr != nil && !tr.after {
		tr.hold()
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	request, err := http.NewRequest(r.Method, c.cloud+r.URL.RequestURI(), bytes.NewReader(body)) // not canceled if the worker dies: the cloud must process the call
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	request.Header = r.Header.Clone()
	answer, err := (&http.Client{Timeout: requestTimeout}).Do(request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || tr != nil {
		if tr != nil {
			tr.hold()
		}
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(text)
}

// hold signals that the call has arrived and blocks until it is released.
func (tr *heldCall) hold() {
	close(tr.reached)
	select {
	case <-tr.released:
	case <-time.After(requestTimeout):
	}
}
