package httpd_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
)

// rawExchange sends raw text and returns the answer to it and its body.
func rawExchange(t *testing.T, address, raw string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(raw, " ")
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func TestServe_MalformedRequestGetsEnvelope(t *testing.T) {
	e, book := newServer(t, httpd.Options{Document: document{}})
	e.GET("/v1/plans", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	logger := httpd.Options{Document: document{}, Logger: book.logger()}
	address, _ := serve(t, e, logger)
	for name, test := range map[string]struct {
		raw    string
		status int
		field  string
	}{
		"an invalid escape":   {"GET /v1/pl%zzans HTTP/1.1\r\nHost: x\r\n\r\n", 400, "request"},
		"a broken header":     {"GET /v1/plans HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", 400, "request"},
		"no host":             {"GET /v1/plans HTTP/1.1\r\n\r\n", 400, "request"},
		"an unknown encoding": {"POST /v1/plans HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n", 501, "Transfer-Encoding"},
		"a later version":     {"GET /v1/plans HTTP/7.1\r\nHost: x\r\n\r\n", 505, "request"},
		"long headers":        {"GET /v1/plans HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", 431, "headers"},
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := rawExchange(t, address, test.raw)
			var got struct {
				Success *bool
				Error   struct {
					Code, Message string
					Details       []fault.Detail
				}
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || got.Success == nil || *got.Success {
				t.Fatalf("%d %s: %v", answer.StatusCode, body, err)
			}
			if answer.StatusCode != test.status || got.Error.Code != "VALIDATION_ERROR" || got.Error.Message == "" ||
				len(got.Error.Details) != 1 || got.Error.Details[0].Field != test.field {
				t.Errorf("%d %s, want %d about %s", answer.StatusCode, body, test.status, test.field)
			}
			id := answer.Header.Get("X-Request-Id")
			if id == "" || answer.Header.Get("Content-Type") != "application/json" || answer.Header.Get("X-Svc-Contract") == "" {
				t.Errorf("headers = %v", answer.Header)
			}
			if line := book.lastRequest(t); line["requestId"] != id || line["status"] != float64(test.status) || line["remoteIp"] != "127.0.0.1" {
				t.Errorf("log = %v", line)
			}
		})
	}
}

// TestServe_ClosesIdleConnectionsWhenFull fills a server with connections without a request, of
// which some have had an answer. They would stay open for minutes.
func TestServe_ClosesIdleConnectionsWhenFull(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	address, _ := serve(t, e, httpd.Options{MaxConnections: 2, Logger: book.logger()})
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "", ""} {
		idle, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		if _, err := io.WriteString(idle, request); err != nil {
			t.Fatal(err)
		}
	}
	client := http.Client{Timeout: 8 * time.Second}
	answer, err := client.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}

// A handler may send what looks like the refusal of net/http.
func TestServe_DoesNotReplaceHandlerResponses(t *testing.T) {
	const text = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	e, _ := newServer(t, httpd.Options{})
	e.GET("/raw", func(c echo.Context) error {
		conn, _, err := c.Response().Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, ok := conn.(*net.TCPConn); !ok {
			t.Errorf("the handler has a %T, which the kernel cannot relay", conn)
		}
		_, err = io.WriteString(conn, text)
		return err
	})
	e.GET("/text", func(c echo.Context) error {
		c.Response().WriteHeader(http.StatusOK)
		c.Response().Flush()
		_, err := io.WriteString(c.Response(), text)
		return err
	})
	address, _ := serve(t, e, httpd.Options{})
	if answer, body := rawExchange(t, address, "GET /raw HTTP/1.1\r\nHost: x\r\n\r\n"); answer.StatusCode != 400 || body != "400 Bad Request" {
		t.Errorf("after a hijack: %d %s", answer.StatusCode, body)
	}
	if answer, body := rawExchange(t, address, "GET /text HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); answer.StatusCode != 200 || body != text {
		t.Errorf("in a body: %d %s", answer.StatusCode, body)
	}
}

func TestServe_MaxHeaderBytes(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	e.GET("/x", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	for _, test := range []struct{ limit, size, status int }{
		{0, 50 << 10, 204}, {0, 80 << 10, 431}, {1 << 20, 900 << 10, 204}, {1 << 20, 1100 << 10, 431},
	} {
		address, _ := serve(t, e, httpd.Options{MaxHeaderBytes: test.limit})
		answer, _ := rawExchange(t, address, "GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: "+strings.Repeat("a", test.size)+"\r\n\r\n")
		if answer.StatusCode != test.status {
			t.Errorf("limit %d, %d bytes: %d, want %d", test.limit, test.size, answer.StatusCode, test.status)
		}
	}
}

func TestServe_MaxConnections(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/x", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	entered, leave := make(chan struct{}), make(chan struct{})
	e.GET("/socket", func(c echo.Context) error {
		conn, _, err := c.Response().Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		close(entered)
		<-leave
		return nil
	})
	address, stop := serve(t, e, httpd.Options{MaxConnections: 2, Logger: book.logger()})
	answered := make(chan error, 1)
	ask := func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
		res, err := client.Get("http://" + address + "/x")
		if err == nil {
			err = errors.Join(res.Body.Close(), map[bool]error{false: fmt.Errorf("status %d", res.StatusCode)}[res.StatusCode == 204])
		}
		answered <- err
	}
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	socket, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	fmt.Fprintf(socket, "GET /socket HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered

	go ask()
	eventually(t, "the limit is in the log", func() bool { return strings.Contains(book.String(), "connection limit reached") })
	select {
	case err := <-answered:
		t.Fatalf("a third connection was served: %v", err)
	default:
	}
	close(leave) // the upgraded connection ends with its handler
	if err := <-answered; err != nil {
		t.Fatal(err)
	}

	go ask()
	if err := <-answered; err != nil { // its own slot was released, too
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
}

func TestServe_StopsAtConnectionLimit(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	address, stop := serve(t, e, httpd.Options{MaxConnections: 1, Logger: book.logger(), DrainTimeout: 100 * time.Millisecond})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	eventually(t, "the limit is in the log", func() bool { return strings.Contains(book.String(), "connection limit reached") })
	if err := stop(); err != nil && !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Serve = %v", err)
	}
}

func TestNew_HeadIsRoutedLikeGet(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/small", func(c echo.Context) error {
		c.Response().Header().Set("ETag", `"1"`)
		return c.JSON(http.StatusOK, map[string]int{"a": 1})
	})
	e.GET("/missing", func(echo.Context) error { return fault.Missing("plan") })
	e.POST("/made", func(c echo.Context) error { return c.NoContent(http.StatusCreated) })
	address, _ := serve(t, e, httpd.Options{})
	for path, status := range map[string]int{"/small": 200, "/missing": 404, "/nowhere": 404, "/made": 405} {
		get, _ := rawExchange(t, address, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		head, body := rawExchange(t, address, "HEAD "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if head.StatusCode != status || get.StatusCode != status || body != "" {
			t.Errorf("%s: HEAD %d, GET %d, want %d; body %q", path, head.StatusCode, get.StatusCode, status, body)
		}
		for _, name := range []string{"Content-Type", "ETag", "Cache-Control", "Allow"} {
			if head.Header.Get(name) != get.Header.Get(name) {
				t.Errorf("%s: %s is %q, of GET %q", path, name, head.Header.Get(name), get.Header.Get(name))
			}
		}
		if status != 405 && head.Header.Get("Content-Length") != get.Header.Get("Content-Length") { // 405 repeats the method
			t.Errorf("%s: Content-Length is %q, of GET %q", path, head.Header.Get("Content-Length"), get.Header.Get("Content-Length"))
		}
	}
	if !strings.Contains(book.String(), `"method":"HEAD"`) {
		t.Error("the log does not tell HEAD from GET")
	}
}

func TestAccessLog_MasksKeyInPath(t *testing.T) {
	const key = "svc_abcdefghijklmnopqrstuvwxyz234567"
	e, book := newServer(t, httpd.Options{})
	e.GET("/images/:key/manifest", func(c echo.Context) error { return fmt.Errorf("no image for %s", c.Param("key")) })
	for _, path := range []string{key, strings.ToUpper(key), "svc%5F" + key[4:]} {
		do(e, "GET", "/images/"+path+"/manifest?key="+key)
		do(e, "GET", "/"+path)
	}
	if log := strings.ToLower(book.String()); strings.Contains(log, key[4:]) || !strings.Contains(log, "/images/svc_***/manifest") {
		t.Errorf("the log says %s", book)
	}
}
