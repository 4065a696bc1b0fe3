package access_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

const (
	launch    = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e06"
	other     = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e07"
	unknown   = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e08"
	workerKey = "the-worker-key"
)

// fakeBrowsers contains browsers that run and browsers that have ended.
type fakeBrowsers map[string]access.Browser

func (b fakeBrowsers) Find(launchID string) (access.Browser, bool) {
	found, ok := b[launchID]
	return found, ok
}

// fixture is a server with one route of each kind. The browser launch runs, the
// browser other has ended. Each route answers with how the request was authorized.
type fixture struct {
	address string
	clock   *clock.Fake
	tickets *ticket.Tickets
	log     *testenv.Log
	checked func(echo.Context) error // the Check of the Authorizer
	minted  []string                 // by fill
}

var kinds = map[string]access.Kind{
	"/asset": access.Asset, "/page": access.Page, "/socket": access.Socket,
	"/view": access.ViewPage, "/view-asset": access.ViewAsset, "/stream": access.Stream,
}

func newFixture(t *testing.T, public string, frameAncestors ...string) *fixture {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	h := &fixture{address: server.Listener.Addr().String(), clock: clock.NewFake(time.Now()), log: &testenv.Log{}}
	h.tickets = ticket.New(h.clock)
	h.tickets.Begin(launch)
	ended := make(chan struct{})
	close(ended)
	g := access.New(access.Options{
		Browsers:  fakeBrowsers{launch: {LaunchID: launch, Done: make(chan struct{})}, other: {LaunchID: other, Done: ended}},
		Tickets:   h.tickets,
		WorkerKey: func(key string) bool { return key == workerKey },
		Address:   addressOf(t, public), FrameAncestors: frameAncestors,
		Check: func(c echo.Context) error {
			if h.checked == nil {
				return nil
			}
			return h.checked(c)
		},
	})
	tell := func(c echo.Context, v access.AuthorizedRequest) error {
		return c.String(http.StatusOK, fmt.Sprintf("%s %s %s %s", c.Request().Method, v.LaunchID, v.Use, v.Token))
	}
	routes := []access.Route{
		{Path: "/change", Method: "POST", Handle: tell},
		{Path: "/many", Method: "PUT", Handle: tell}, {Path: "/many", Method: "POST", Handle: tell},
		{Path: "/page/", Kind: access.Page, Handle: tell},
		{Path: "/act", Changes: true, Handle: tell},
		{Path: "/ends", Handle: func(echo.Context, access.AuthorizedRequest) error {
			return fmt.Errorf("meanwhile: %w", access.ErrUnknownBrowser)
		}},
	}
	for _, path := range []string{"/json/version", "/json/list/", access.BrowserSocket, access.BrowserSocket + "/:id", "/devtools/page/:id"} {
		routes = append(routes, access.Route{Path: path, Kind: access.Socket, Handle: tell})
	}
	routes = append(routes,
		access.Route{Path: "/json/new", Method: "PUT", Handle: func(c echo.Context, _ access.AuthorizedRequest) error {
			return c.String(http.StatusOK, c.Request().URL.RawQuery)
		}},
		access.Route{Path: "/json/close/:id", Changes: true, Handle: tell})
	for path, kind := range kinds {
		routes = append(routes, access.Route{Path: path, Kind: kind, Handle: tell})
	}
	e := httpd.New(httpd.Options{Logger: slog.New(slog.NewJSONHandler(h.log, nil))})
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "the console") })
	g.RegisterRoot(e)
	g.Register(e, routes...)
	server.Config.Handler = e
	server.Start()
	t.Cleanup(server.Close)
	return h
}

func addressOf(t *testing.T, public string) access.Address {
	t.Helper()
	base, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	return access.NewAddress(base)
}

func (h *fixture) urlOf(launchID, rest string) string {
	return "http://" + h.address + "/browsers/" + launchID + rest
}

func (h *fixture) token(t *testing.T, launchID string, use ticket.Use) string {
	t.Helper()
	return mint(t, h.tickets, launchID, use)
}

// fillTokens replaces {ct} and {t} with new tokens of the launch.
func (h *fixture) fillTokens(t *testing.T, text string) string {
	t.Helper()
	for place, use := range map[string]ticket.Use{"{ct}": ticket.Control, "{t}": ticket.View} {
		if strings.Contains(text, place) {
			token := h.token(t, launch, use)
			h.minted = append(h.minted, token)
			text = strings.ReplaceAll(text, place, token)
		}
	}
	return text
}

func mint(t testing.TB, tickets *ticket.Tickets, launchID string, use ticket.Use) string {
	t.Helper()
	token, _, err := tickets.Mint(launchID, use)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// answer is a response, as far as tests check it.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request with headers (name, value, ...) and does not follow redirects.
func do(t *testing.T, method, address string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// raw returns an answer as text, without the headers that differ between requests.
func raw(a answer) string {
	a.header.Del("Date")
	a.header.Del("X-Request-Id")
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	_ = a.header.Write(&b)
	return b.String() + "\n" + a.body
}
