package devtools

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
)

var devtoolsID = lazy.Regexp(`^[A-Za-z0-9-]{1,64}$`)

// connectBrowser relays a WebSocket to that of the browser.
func (s *Service) connectBrowser(c echo.Context, v access.AuthorizedRequest) error {
	return s.connect("browser", func(echo.Context) string { return path.Base(v.DebugPath) })(c, v)
}

// targetOf returns the id in the path, for connect. Some clients append a slash.
func targetOf(param string) func(c echo.Context) string {
	return func(c echo.Context) string { return strings.TrimSuffix(c.Param(param), "/") }
}

// connect relays a WebSocket to one of Chromium's own, /devtools/<kind>/<id>,
// and returns when it has ended.
func (s *Service) connect(kind string, idOf func(echo.Context) string) access.Handler {
	return func(c echo.Context, v access.AuthorizedRequest) error {
		id := idOf(c)
		if err := ws.CheckHandshake(c.Request()); err != nil {
			return err
		}
		if !devtoolsID().MatchString(id) {
			return errNoTarget
		}
		path := "/devtools/" + kind + "/" + id
		if c.QueryParams().Has(resumeQuery) {
			return s.connectResumable(c, v, kind, path)
		}
		if err := s.tasks.begin(v.LaunchID); err != nil {
			return err
		}
		defer s.tasks.end(v.LaunchID)
		up, err := s.dial(c.Request(), v, path)
		if err != nil {
			return err
		}
		client, err := up.TakeOver(c.Response(), nil)
		if err != nil {
			_ = up.Conn.Close()
			return err
		}
		s.sockets.Add(1)
		defer s.sockets.Add(-1)
		awaitEnd := beforeEnd(v, kind)
		intercept.NewRelay(client, &up.Raw, intercept.RelayOptions{
			Calls: v.Calls, Done: v.Done, Watch: v.Activity.Watch, Client: clientOf(c.Request(), kind, path),
			End: func(ctx context.Context, e intercept.Ending) (status uint16, reason string) {
				if e != intercept.ClientLeft {
					awaitEnd(ctx, e == intercept.CloseAccepted)
				}
				return 0, ""
			},
		}).Run(s.tasks.ctx)
		return nil
	}
}

// clientOf describes the client of a connection to Chromium's /devtools/<kind>/<id>.
func clientOf(r *http.Request, kind, address string) *tap.Client {
	target := ""
	if kind == "page" {
		target = path.Base(address)
	}
	return tap.NewClient(r, "CDP", target)
}

func (s *Service) dial(r *http.Request, v access.AuthorizedRequest, path string) (*ws.Upstream, error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.tasks.ctx, cancel)()
	up, err := ws.DialUpstream(ctx, v.Dial, loopback(v.DebugPort), path, r.Header)
	if refused, ok := errors.AsType[*ws.RefusedError](err); ok &&
		(refused.Status == http.StatusNotFound || refused.Status == http.StatusInternalServerError) {
		return nil, errNoTarget // Chromium answers 500 for an unknown page
	}
	return up, s.toFault(v, err)
}

// beforeEnd returns a function that is called before a client sees that the browser has
// accepted Browser.close, or has closed its side of a connection. It waits until the end of
// the browser is recorded. A page closes its side also when only the page ends.
func beforeEnd(v access.AuthorizedRequest, kind string) func(ctx context.Context, closeAccepted bool) {
	return func(ctx context.Context, closeAccepted bool) {
		if v.AwaitEnd != nil && (closeAccepted || kind == "browser" || v.HasEnded()) {
			v.AwaitEnd(ctx)
		}
	}
}
