// Package stripetest is a fake Stripe API for tests. It runs stripe-mock, which
// validates every request, behind a server that records requests and merges fields that
// a test sets into the answers.
//
// stripe-mock is a Go program, pinned by the module in the folder mock and built by the
// Go command, so it does not have to be installed.
package stripetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The secrets of a test, in the form that stripe-mock requires.
const (
	SecretKey     = "sk_test_123"
	WebhookSecret = "whsec_test"
)

// Request is a request that reached Stripe.
type Request struct {
	Method, Path   string
	Form           url.Values
	IdempotencyKey string
}

// Stripe is the Stripe API of one test.
type Stripe struct {
	URL string // for stripe.Config.APIBase

	mu       sync.Mutex
	answers  map[string]map[string]any
	failures map[string][]int
	before   map[string]func()
	requests []Request
}

// shared is the stripe-mock process shared by all tests of the process.
var shared = sync.OnceValues(start)

// New returns a Stripe without overlays.
func New(t testing.TB) *Stripe {
	t.Helper()
	socket, err := shared()
	if err != nil {
		t.Fatalf("start stripe-mock: %v", err)
	}
	s := &Stripe{answers: map[string]map[string]any{}, failures: map[string][]int{}, before: map[string]func(){}}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	server := httptest.NewServer(s.handler(transport))
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	s.URL = server.URL
	return s
}

// Answer merges fields into stripe-mock's answers to requests with this method and
// path, such as "GET /v1/subscriptions/sub_1". Objects are merged recursively.
func (s *Stripe) Answer(route string, fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[route] = fields
}

// Fail makes the next requests with this method and path fail with these
// statuses.
func (s *Stripe) Fail(route string, statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[route] = statuses
}

// Before calls hold once, after stripe-mock has answered a request with this
// method and path and before the answer is sent.
func (s *Stripe) Before(route string, hold func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before[route] = hold
}

// Requests returns the recorded requests with this method and path.
func (s *Stripe) Requests(route string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Request
	for _, r := range s.requests {
		if r.Method+" "+r.Path == route {
			found = append(found, r)
		}
	}
	return found
}

func (s *Stripe) handler(mock http.RoundTripper) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(r.URL.RawQuery + "&" + string(body))
		route := r.Method + " " + r.URL.Path
		if status := s.record(route, Request{Method: r.Method, Path: r.URL.Path, Form: form, IdempotencyKey: r.Header.Get("Idempotency-Key")}); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"error": {"type": "api_error", "message": "status %d on purpose"}}`, status)
			return
		}
		onward := r.Clone(r.Context())
		onward.URL.Scheme, onward.URL.Host, onward.RequestURI = "http", "stripe-mock", ""
		onward.Body = io.NopCloser(bytes.NewReader(body))
		onward.Header.Del("Accept-Encoding")
		res, err := mock.RoundTrip(onward)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		answer, _ := io.ReadAll(res.Body)
		if res.StatusCode == http.StatusOK {
			answer = s.overlay(route, form, answer)
		}
		s.hold(route)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(answer)
	}
}

// record records the request and returns the status to fail with, or 0.
func (s *Stripe) record(route string, r Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	failures := s.failures[route]
	if len(failures) == 0 {
		return 0
	}
	s.failures[route] = failures[1:]
	return failures[0]
}

func (s *Stripe) hold(route string) {
	s.mu.Lock()
	hold := s.before[route]
	delete(s.before, route)
	s.mu.Unlock()
	if hold != nil {
		hold()
	}
}

func (s *Stripe) overlay(route string, form url.Values, answer []byte) []byte {
	s.mu.Lock()
	fields, ok := s.answers[route]
	s.mu.Unlock()
	if !ok && route == "GET /v1/prices" {
		fields, ok = prices(form), true
	}
	if !ok {
		return answer
	}
	var object map[string]any
	if json.Unmarshal(answer, &object) != nil {
		return answer
	}
	overlayFields(object, fields)
	overlaid, err := json.Marshal(object)
	if err != nil {
		return answer
	}
	return overlaid
}

func overlayFields(under, over map[string]any) {
	for name, value := range over {
		into, ok := under[name].(map[string]any)
		if fields, isObject := value.(map[string]any); isObject && ok {
			overlayFields(into, fields)
			continue
		}
		under[name] = value
	}
}

// prices returns a price for each requested lookup key, with the ID price_ and the key.
func prices(form url.Values) map[string]any {
	found := []any{}
	for name, values := range form {
		if strings.HasPrefix(name, "lookup_keys") {
			for _, key := range values {
				found = append(found, Price(key, 0))
			}
		}
	}
	return map[string]any{"data": found, "has_more": false}
}

// Price returns a monthly price in cents with a lookup key. Its ID is price_ and the
// key.
func Price(key string, cents int) map[string]any {
	return map[string]any{
		"id": "price_" + key, "object": "price", "active": true, "lookup_key": key, "currency": "usd",
		"unit_amount": cents, "recurring": map[string]any{"interval": "month"}, "metadata": map[string]any{},
	}
}

// start runs stripe-mock until the test process ends.
func start() (socket string, err error) {
	program, err := build()
	if err != nil {
		return "", err
	}
	socket = fmt.Sprintf("@stripe-mock-%d-%d", os.Getpid(), time.Now().UnixNano()) // a socket in the abstract namespace: no file to remove
	cmd := exec.CommandContext(context.Background(), program, "-http-unix", socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan error, 1)
	began := make(chan error)
	go func() { // the signal is sent when the starting thread ends, so that thread must not end
		runtime.LockOSThread()
		began <- cmd.Start()
		ended <- cmd.Wait()
	}()
	if err := <-began; err != nil {
		return "", err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if conn, err := new(net.Dialer).DialContext(context.Background(), "unix", socket); err == nil {
			_ = conn.Close()
			return socket, nil
		}
		select {
		case err := <-ended:
			return "", fmt.Errorf("it ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return "", fmt.Errorf("it does not listen")
}

// build builds stripe-mock with the Go command and returns its path.
func build() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	root, err := run(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}"))
	if err != nil {
		return "", err
	}
	find := exec.CommandContext(ctx, "go", "tool", "-n", "stripe-mock")
	find.Dir = filepath.Join(root, "cloud/internal/tenancy/billing/stripetest/mock")
	return run(find)
}

func run(cmd *exec.Cmd) (string, error) {
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}
