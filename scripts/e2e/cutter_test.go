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

// cutter stands between a worker and its cloud. Armed, it stops the next call
// of a kind: before the cloud has heard it, or before the worker hears the
// answer. What is stopped is cut off when it is let go.
type cutter struct {
	*httptest.Server
	cloud string

	mu   sync.Mutex
	trap *trap
}

// trap waits for one call.
type trap struct {
	call   string // authorize, start or end
	after  bool   // once the cloud has answered
	sprung chan struct{}
	letGo  chan struct{}
	once   sync.Once
}

// release cuts off what the trap has caught, and catches nothing any more.
func (tr *trap) release() { tr.once.Do(func() { close(tr.letGo) }) }

func newCutter(t *testing.T, cloud string) *cutter {
	t.Helper()
	c := &cutter{cloud: cloud}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// arm sets a trap for the next such call.
func (c *cutter) arm(call string, after bool) *trap {
	tr := &trap{call: call, after: after, sprung: make(chan struct{}), letGo: make(chan struct{})}
	c.mu.Lock()
	c.trap = tr
	c.mu.Unlock()
	return tr
}

// take is the trap for this call, if one is set.
func (c *cutter) take(call string) *trap {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trap == nil || c.trap.call != call {
		return nil
	}
	tr := c.trap
	c.trap = nil
	return tr
}

// callOf tells the calls of a launch apart.
func callOf(r *http.Request) string {
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

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tr := c.take(callOf(r))
	if tr != nil && !tr.after {
		tr.hold()
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	request, err := http.NewRequest(r.Method, c.cloud+r.URL.RequestURI(), bytes.NewReader(body)) // the cloud answers even a worker that is dead
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	request.Header = r.Header.Clone()
	answer, err := (&http.Client{Timeout: callTime}).Do(request)
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

// hold tells that the call is here and keeps it until it is let go.
func (tr *trap) hold() {
	close(tr.sprung)
	select {
	case <-tr.letGo:
	case <-time.After(callTime):
	}
}
