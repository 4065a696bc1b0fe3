package view_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/api/view"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/media/rfb"
	"github.com/browser-svc/svc/worker/internal/session/activity"
)

const (
	launch    = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e06"
	workerKey = "the-worker-key"
)

// rfbStreamer is a Streamer based on package rfb, as in the worker.
type rfbStreamer struct{}

func (rfbStreamer) Stream(ctx context.Context, viewer net.Conn, b access.Browser, control bool) error {
	access := rfb.Watch
	if control {
		access = rfb.Control
	}
	up, err := connect(ctx, b, access)
	if err != nil {
		return err
	}
	return rfb.Serve(ctx, viewer, up, access, b.Activity.Touch)
}

func connect(ctx context.Context, b access.Browser, access rfb.Access) (*rfb.Upstream, error) {
	switch {
	case b.Display == nil:
		return rfb.Screencast(ctx, rfb.DevTools{Port: b.DebugPort}, access)
	case access == rfb.Control:
		return rfb.Connect(ctx, b.Display.Socket, b.Display.Password)
	}
	return rfb.Connect(ctx, b.Display.Socket, b.Display.ViewPassword)
}

// idleStreamer is a Streamer that sends nothing, reads everything, and records the
// access of its viewers.
type idleStreamer struct {
	mu       sync.Mutex
	controls []bool
}

func (s *idleStreamer) Stream(_ context.Context, viewer net.Conn, _ access.Browser, control bool) error {
	s.mu.Lock()
	s.controls = append(s.controls, control)
	s.mu.Unlock()
	defer viewer.Close()
	_, err := io.Copy(io.Discard, viewer)
	return err
}

// finder finds one running browser.
type finder struct {
	mu      sync.Mutex
	browser access.Browser
}

func (f *finder) Find(id string) (access.Browser, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.browser, id == f.browser.LaunchID
}

// testServer is a server with the routes of the package.
type testServer struct {
	*view.Service
	address     string // host:port
	tickets     *ticket.Tickets
	clock       *clock.Fake
	browser     *access.Browser
	browserDone chan struct{} // Done of a fake browser

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// newTestServer serves one browser below prefix (usually empty). more are routes in
// addition to those of the view.
func newTestServer(t *testing.T, prefix string, o view.Options, b access.Browser, more ...access.Route) *testServer {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	w := &testServer{
		address: server.Listener.Addr().String(), clock: clock.NewFake(time.Now()),
		browserDone: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	w.tickets = ticket.New(w.clock)
	w.tickets.Begin(launch)
	b.LaunchID, b.SessionID, b.Name, b.StartedAt = launch, "019a5f3e-a1b3-7001-9c4f-000000000001", "Checkout in German", time.Now()
	b.Activity = activity.New(w.clock)
	if b.Done == nil {
		b.Done = w.browserDone
	}
	w.browser = &b
	o.Logger = slog.New(slog.DiscardHandler)
	w.Service = view.New(o)
	public, err := url.Parse("http://" + w.address + prefix)
	if err != nil {
		t.Fatal(err)
	}
	e := httpd.New(httpd.Options{Logger: o.Logger})
	e.GET("/browsers/:launchId", view.AddSlash)
	g := access.New(access.Options{
		Browsers: &finder{browser: b}, Tickets: w.tickets, Address: access.NewAddress(public),
		WorkerKey: func(key string) bool { return key == workerKey }, FrameAncestors: []string{"http://localhost:*"},
	})
	g.Register(e, append(w.Routes(), more...)...)
	server.Config.Handler = http.StripPrefix(prefix, e)
	server.Config.ConnState = w.trackConn
	server.Start()
	t.Cleanup(func() {
		w.Close()
		server.Close()
	})
	return w
}

// trackConn records the connections of streams, for cutConns.
func (w *testServer) trackConn(conn net.Conn, state http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if state == http.StateHijacked {
		w.conns[conn] = struct{}{}
	}
}

// cutConns closes the connections of all streams and returns their number.
func (w *testServer) cutConns() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.conns)
	for conn := range w.conns {
		conn.Close()
	}
	clear(w.conns)
	return n
}

func (w *testServer) token(t testing.TB, use ticket.Use) string {
	t.Helper()
	token, _, err := w.tickets.Mint(launch, use)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (w *testServer) path(rest string) string {
	return "http://" + w.address + "/browsers/" + launch + rest
}

func (w *testServer) dial(t testing.TB, query string) (*ws.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(w.path("/vnc?"+query), "http"), nil, ws.Options{})
	if err == nil {
		t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, err
}

// response is a response, as far as tests check it.
type response struct {
	status int
	header http.Header
	body   string
}

// get sends a GET request with headers (name, value, ...) and does not follow
// redirects.
func get(t testing.TB, address string, headers ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res.StatusCode, res.Header, string(body)}
}

// otherRoutes returns fakes of the other routes that the page of a browser uses.
func otherRoutes(t *testing.T, b *browser.Browser, tokens func() *testServer) []access.Route {
	picture := image.NewRGBA(image.Rect(0, 0, 320, 200))
	draw.Draw(picture, picture.Bounds(), image.NewUniform(color.RGBA{40, 140, 90, 255}), image.Point{}, draw.Src)
	ask := func(c echo.Context, v access.AuthorizedRequest, method, path string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d%s", v.DebugPort, path), nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		return c.Stream(res.StatusCode, res.Header.Get("Content-Type"), res.Body)
	}
	pass := func(c echo.Context, v access.AuthorizedRequest) error {
		_, rest, _ := strings.Cut(c.Request().RequestURI, v.LaunchID)
		return ask(c, v, c.Request().Method, rest)
	}
	return []access.Route{
		{Path: "/json/list", Handle: pass},
		{Path: "/json/new", Method: http.MethodPut, Handle: pass},
		{Path: "/json/version", Handle: func(c echo.Context, v access.AuthorizedRequest) error {
			return c.JSON(http.StatusOK, map[string]string{"webSocketDebuggerUrl": "ws://worker.test/browsers/" + v.LaunchID + "/devtools/browser/x?ct=secret-token"})
		}},
		{Path: "/screenshot", Handle: func(c echo.Context, _ access.AuthorizedRequest) error {
			c.Response().Header().Set(echo.HeaderContentType, "image/jpeg")
			return jpeg.Encode(c.Response(), picture, nil)
		}},
		{Path: "/view-ticket", Method: http.MethodPost, Handle: func(c echo.Context, _ access.AuthorizedRequest) error {
			w := tokens()
			return c.JSON(http.StatusCreated, map[string]any{"success": true, "data": map[string]any{
				"viewUrl": w.path("/view?t=" + w.token(t, ticket.View)), "viewExpiresAt": time.Now().Add(15 * time.Minute),
			}})
		}},
		{Path: "/handover/done", Method: http.MethodPost, Handle: func(c echo.Context, v access.AuthorizedRequest) error {
			if _, err := v.Calls.Handovers().Finish(""); err != nil {
				return err
			}
			return c.NoContent(http.StatusNoContent)
		}},
		{Path: "/handover/questions/:questionId", Method: http.MethodPost, Handle: func(c echo.Context, v access.AuthorizedRequest) error {
			var request struct{ Answer handover.Decision }
			if err := c.Bind(&request); err != nil {
				return err
			}
			if _, err := v.Calls.Handovers().Answer(uuid.MustParse(c.Param("questionId")), request.Answer); err != nil {
				return err
			}
			return c.NoContent(http.StatusNoContent)
		}},
		{Path: "/close", Method: http.MethodPost, Handle: func(c echo.Context, v access.AuthorizedRequest) error {
			var request struct{ TargetID string }
			if err := c.Bind(&request); err != nil {
				return err
			}
			if request.TargetID != "" {
				return ask(c, v, http.MethodGet, "/json/close/"+request.TargetID)
			}
			return firstError(b.Kill(context.WithoutCancel(c.Request().Context())), c.NoContent(http.StatusNoContent))
		}},
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
