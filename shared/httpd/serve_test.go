package httpd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
)

// serve runs e on a loopback port. stop ends it and returns the result of Serve.
func serve(t *testing.T, e *echo.Echo, options httpd.Options) (address string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- httpd.Serve(ctx, ln, e, options) }()
	stop = func() error {
		cancel()
		select {
		case err := <-done:
			done <- err
			return err
		case <-time.After(10 * time.Second):
			return errors.New("Serve did not return")
		}
	}
	t.Cleanup(func() { _ = stop() })
	return ln.Addr().String(), stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: did not happen", what)
}

func TestServe_DrainsRunningRequests(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	started, finish := make(chan struct{}), make(chan struct{})
	e.GET("/slow", func(c echo.Context) error {
		close(started)
		<-finish
		return c.String(200, fmt.Sprint(c.Request().Context().Err()))
	})
	address, stop := serve(t, e, httpd.Options{})

	answer := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + address + "/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer <- string(body)
	}()
	<-started
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	eventually(t, "listener closed", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(finish)
	if got := <-answer; got != "<nil>" {
		t.Errorf("the running request got %q", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServe_CutsOffRequestsAfterDrainTimeout(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	started, cut := make(chan struct{}), make(chan struct{})
	e.GET("/stuck", func(c echo.Context) error {
		close(started)
		<-c.Request().Context().Done()
		close(cut)
		return c.Request().Context().Err()
	})
	address, stop := serve(t, e, httpd.Options{DrainTimeout: 50 * time.Millisecond})
	go func() {
		if res, err := http.Get("http://" + address + "/stuck"); err == nil {
			res.Body.Close()
		}
	}()
	<-started
	if err := stop(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Serve = %v, want the drain's deadline", err)
	}
	select {
	case <-cut:
	case <-time.After(5 * time.Second):
		t.Error("the handler was never cancelled")
	}
}

func TestServe_ReportsListenerError(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := httpd.Serve(t.Context(), ln, e, httpd.Options{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve = %v", err)
	}
}

func TestAccessLog_ClientDisconnectIsNotAnError(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	started := make(chan struct{})
	e.GET("/x", func(c echo.Context) error {
		close(started)
		<-c.Request().Context().Done()
		return fmt.Errorf("query: %w", c.Request().Context().Err())
	})
	address, _ := serve(t, e, httpd.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/x", nil)
	if res, err := http.DefaultClient.Do(r); err == nil {
		res.Body.Close()
		t.Error("answered")
	}
	eventually(t, "logged", func() bool { return strings.Contains(book.String(), `"msg":"request"`) })
	if line := book.lastRequest(t); line["status"] != 499.0 || line["level"] != "INFO" {
		t.Errorf("log = %v", line)
	}
}

func TestAccessLog_ServerDeadlineIsAnError(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/x", func(echo.Context) error { return context.DeadlineExceeded })
	if w := do(e, "GET", "/x"); w.Code != 500 {
		t.Errorf("status = %d", w.Code)
	}
	if line := book.lastRequest(t); line["level"] != "ERROR" {
		t.Errorf("log = %v", line)
	}
}

func TestServe_LeavesUpgradedConnectionOpen(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/raw", func(c echo.Context) error {
		conn, _, err := c.Response().Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\nhello")
		return errors.New("peer went away")
	})
	address, _ := serve(t, e, httpd.Options{})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /raw?ct=secret-token HTTP/1.1\r\nHost: x\r\n\r\n")
	got, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil || !strings.HasSuffix(string(got), "\r\n\r\nhello") {
		t.Errorf("got %q, %v", got, err)
	}
	eventually(t, "logged", func() bool { return strings.Contains(book.String(), `"msg":"request"`) })
	if line := book.lastRequest(t); line["status"] != 101.0 {
		t.Errorf("log = %v", line)
	}
	if strings.Contains(book.String(), "secret-token") {
		t.Error("the token is in the log")
	}
}

func TestServe_ReadTimeoutAppliesToBodyOnly(t *testing.T) {
	const timeout = 300 * time.Millisecond
	e, _ := newServer(t, httpd.Options{})
	e.POST("/read", func(c echo.Context) error {
		if _, err := io.ReadAll(c.Request().Body); err != nil {
			return echo.NewHTTPError(400).SetInternal(err)
		}
		select { // longer than the deadline: the context must survive it
		case <-c.Request().Context().Done():
			return c.Request().Context().Err()
		case <-time.After(2 * timeout):
			return c.String(200, "read")
		}
	})
	address, _ := serve(t, e, httpd.Options{ReadTimeout: timeout})

	res, err := http.Post("http://"+address+"/read", "text/plain", strings.NewReader("whole"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("a slow handler got %d", res.StatusCode)
	}

	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(conn, "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nnever the rest")
	slow, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("slow client: %v", err)
	}
	defer slow.Body.Close()
	if slow.StatusCode != http.StatusBadRequest {
		t.Errorf("slow client: got %d", slow.StatusCode)
	}
}

func TestServe_HandlerOutlastsReadTimeout(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	e.POST("/wait", func(c echo.Context) error {
		if _, err := io.ReadAll(c.Request().Body); err != nil {
			return err
		}
		select {
		case <-c.Request().Context().Done():
			return c.Request().Context().Err()
		case <-time.After(time.Second):
			return c.NoContent(http.StatusNoContent)
		}
	})
	address, _ := serve(t, e, httpd.Options{ReadTimeout: 200 * time.Millisecond})
	res, err := http.Post("http://"+address+"/wait", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		t.Errorf("got %d", res.StatusCode)
	}
}
