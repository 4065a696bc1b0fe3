package ws_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
)

// echoServer accepts connections with these options and echoes every message. Errors of
// Accept are sent to refused.
func echoServer(t *testing.T, options ws.Options) (address string, refused chan error) {
	t.Helper()
	refused = make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := ws.Accept(w, r, options)
		if err != nil {
			refused <- err
			http.Error(w, "ours", http.StatusTeapot)
			return
		}
		defer conn.CloseNow()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http"), refused
}

func dial(t *testing.T, address string, header http.Header) (*ws.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := ws.Dial(ctx, address, header, ws.Options{})
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, err
}

func TestConn_MessagesOfAnySizeWithinLimit(t *testing.T) {
	address, _ := echoServer(t, ws.Options{})
	conn, err := dial(t, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, message := range map[ws.Kind]string{ws.Text: `{"id":1}`, ws.Binary: strings.Repeat("x", 1<<20)} {
		if err := conn.Write(t.Context(), kind, []byte(message)); err != nil {
			t.Fatal(err)
		}
		gotKind, got, err := conn.Read(t.Context())
		if err != nil || gotKind != kind || string(got) != message {
			t.Errorf("sent %v of %d bytes, received %v of %d, %v", kind, len(message), gotKind, len(got), err)
		}
	}
}

func TestConn_OversizeMessageCloses(t *testing.T) {
	address, _ := echoServer(t, ws.Options{ReadLimit: 10})
	conn, err := dial(t, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(t.Context(), ws.Text, []byte(strings.Repeat("x", 11))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Read(t.Context()); ws.CloseStatus(err) != ws.MessageTooBig {
		t.Errorf("Read = %v", err)
	}
}

func TestAccept_ChecksOrigin(t *testing.T) {
	for origin, allowed := range map[string]bool{
		"":                           true,
		"https://app.example.test":   true,
		"https://evil.test":          false,
		"https://example.test.evil/": false,
	} {
		address, refused := echoServer(t, ws.Options{Origins: []string{"*.example.test"}})
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		_, err := dial(t, address, header)
		if (err == nil) != allowed {
			t.Errorf("origin %q: %v", origin, err)
		}
		if !allowed {
			if err := <-refused; !fault.Is(err, fault.Forbidden) {
				t.Errorf("origin %q: Accept = %v", origin, err)
			}
		}
	}
}

func TestAccept_LeavesRefusalToCaller(t *testing.T) {
	address, refused := echoServer(t, ws.Options{})
	res, err := http.Get("http" + strings.TrimPrefix(address, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusTeapot || string(body) != "ours\n" || res.Header.Get("Upgrade") != "" {
		t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
	}
	if err := <-refused; !fault.Is(err, fault.Validation) {
		t.Errorf("Accept = %v", err)
	}
}

func TestDial_ReturnsServerAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "unknown browser", http.StatusNotFound)
	}))
	defer server.Close()
	_, err := dial(t, server.URL, nil)
	var refused *ws.RefusedError
	if !errors.As(err, &refused) || refused.Status != 404 || strings.TrimSpace(refused.Body) != "unknown browser" {
		t.Errorf("Dial = %v", err)
	}
	server.Close()
	if _, err := dial(t, server.URL, nil); err == nil || errors.As(err, &refused) {
		t.Errorf("Dial without a server = %v", err)
	}
}

func TestStream_JoinsMessages(t *testing.T) {
	address, _ := echoServer(t, ws.Options{})
	conn, err := dial(t, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	stream := conn.Stream(t.Context(), ws.Binary)
	for _, part := range []string{"hello ", "world"} {
		if _, err := io.WriteString(stream, part); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, len("hello world"))
	if _, err := io.ReadFull(stream, got); err != nil || string(got) != "hello world" {
		t.Errorf("got %q, %v", got, err)
	}
}
