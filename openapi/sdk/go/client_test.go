package svc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

// serve returns a client of a server, and the number of requests.
func serve(t *testing.T, handler http.HandlerFunc) (*svc.Client, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("X-API-Key") != "wrk_key" {
			t.Errorf("%s has no key", r.URL)
		}
		w.Header().Set("X-Svc-Contract", "1.0.0")
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := svc.New(svc.Options{Worker: server.URL + "/", Key: "wrk_key"})
	if err != nil {
		t.Fatal(err)
	}
	return client, &requests
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"success":false,"error":{"code":%q,"message":"No.","details":[{"field":"name","code":"CUSTOM","message":"is wrong"}]}}`, code)
}

func TestClient_ReturnsErrorOfEnvelope(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "request-1")
		refuse(w, http.StatusPaymentRequired, "AUTHORIZATION_ERROR")
	})
	_, err := client.Launch(t.Context(), svc.LaunchOptions{})
	var refused *svc.Error
	if !errors.As(err, &refused) || refused.Status != 402 || refused.Code != "AUTHORIZATION_ERROR" || refused.RequestID != "request-1" || refused.Error() != "No. (name: is wrong)" {
		t.Errorf("got %#v", err)
	}
}

func TestClient_RepeatsOnlyWhatIsSafe(t *testing.T) {
	client, requests := serve(t, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusServiceUnavailable, "EXTERNAL_SERVICE_ERROR")
	})
	if _, err := client.Session(t.Context(), "1"); err == nil || requests.Load() != 3 {
		t.Errorf("GET was sent %d times: %v", requests.Load(), err)
	}
	requests.Store(0)
	if _, err := client.Launch(t.Context(), svc.LaunchOptions{}); err == nil || requests.Load() != 1 {
		t.Errorf("a launch was sent %d times: %v", requests.Load(), err)
	}
}

func TestClient_RespectsRetryAfter(t *testing.T) {
	count := 0
	client, requests := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if count++; count == 1 {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
			return
		}
		_, _ = fmt.Fprint(w, `{"success":true,"data":{"id":"019a5f3e-a1b2-7c3d-8e4f-5a6b7c8d9e05","webSocketDebuggerUrl":"ws://worker/x"}}`)
	})
	began := time.Now()
	session, err := client.Launch(t.Context(), svc.LaunchOptions{})
	if err != nil || session.WebSocketURL != "ws://worker/x" || requests.Load() != 2 || time.Since(began) < time.Second {
		t.Errorf("%d requests in %v: %+v, %v", requests.Load(), time.Since(began), session, err)
	}
}

func TestSession_DoesNotRepeatUpload(t *testing.T) {
	uploads := 0
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			uploads++
			refuse(w, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
			return
		}
		_, _ = fmt.Fprint(w, `{"success":true,"data":{"id":"019a5f3e-a1b2-7c3d-8e4f-5a6b7c8d9e05"}}`)
	})
	session, err := client.Session(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Upload(t.Context(), "a.txt", strings.NewReader("content")); err == nil || uploads != 1 {
		t.Errorf("sent %d times: %v", uploads, err)
	}
}

func TestSession_CancelsHandoverAfterError(t *testing.T) {
	var canceled atomic.Bool
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			canceled.Store(true)
		case strings.HasSuffix(r.URL.Path, "/handover") && r.Method == http.MethodGet:
			refuse(w, http.StatusInternalServerError, "INTERNAL_ERROR")
			return
		}
		_, _ = fmt.Fprint(w, `{"success":true,"data":{"id":"019a5f3e-a1b2-7c3d-8e4f-5a6b7c8d9e05"}}`)
	})
	session, err := client.Session(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.WaitForHuman(t.Context(), "Solve it.", time.Minute, nil); err == nil || !canceled.Load() {
		t.Errorf("canceled: %t, %v", canceled.Load(), err)
	}
}

func TestClient_DoesNotSendKeyToAnotherHost(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("got %s with %v", r.URL, r.Header) }))
	defer other.Close()
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if _, err := client.Sessions(t.Context(), false); err == nil || !strings.Contains(err.Error(), other.URL) {
		t.Errorf("got %v", err)
	}
}

func TestSession_FollowsLogsUntilEnd(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/logs") {
			_, _ = fmt.Fprint(w, `{"success":true,"data":{"id":"019a5f3e-a1b2-7c3d-8e4f-5a6b7c8d9e05"}}`)
			return
		}
		_, _ = fmt.Fprint(w, ": comment\n\nid: 1\nevent: entry\ndata: {\"seq\":1,\"text\":\"a: b\"}\n\n: comment\n\nevent: end\ndata: {}\n\n")
	})
	session, err := client.Session(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for entry, err := range session.Logs(t.Context(), true) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, entry.Text)
	}
	if len(texts) != 1 || texts[0] != "a: b" {
		t.Errorf("got %q", texts)
	}
}

func TestClient_StopsWithContext(t *testing.T) {
	client, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Session(ctx, "1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
