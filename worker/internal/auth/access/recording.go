package access

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// RecordingTokens mints and verifies the tokens of recordings.
type RecordingTokens interface {
	MintRecording(sessionID string) (token string, expires time.Time, err error)
	RedeemRecording(token, sessionID string) (cookie string, err error)
	VerifyRecording(cookie, sessionID string) error
}

// Recordings gives access to the recordings of single sessions (specification 5.7).
type Recordings struct {
	Address Address
	Tokens  RecordingTokens
}

// Ticket returns the query of a URL that opens a page of a recording once, and its expiry.
func (s Recordings) Ticket(sessionID string) (query string, expires time.Time, err error) {
	token, expires, err := s.Tokens.MintRecording(sessionID)
	if err != nil {
		return "", time.Time{}, err
	}
	return "?" + TokenQuery(ticket.View, token).Encode(), expires, nil
}

// Player returns the URL of the player without a ticket.
func (s Recordings) Player(sessionID string) string { return s.part(sessionID, "player") }

// Viewer returns the URL of the trace viewer without a ticket.
func (s Recordings) Viewer(sessionID string) string { return s.part(sessionID, "viewer") }

// Trace returns the URL of the trace.
func (s Recordings) Trace(sessionID string) string { return s.part(sessionID, "trace") }

func (s Recordings) part(sessionID, name string) string {
	u := s.Address.base
	u.Path = s.Address.Path(recordingPath(sessionID) + "/" + name)
	return u.String()
}

func recordingPath(sessionID string) string { return "/sessions/" + sessionID + "/recording" }

// Authenticate checks the cookie that has replaced a recording ticket, for a request for
// that recording. An invalid cookie counts as none.
func (s Recordings) Authenticate(r *http.Request) (context.Context, error) {
	rest, _ := strings.CutPrefix(r.URL.Path, "/sessions/")
	session, _, _ := strings.Cut(rest, "/")
	for _, cookie := range r.CookiesNamed(ticket.RecordingCookie) {
		if s.Tokens.VerifyRecording(cookie.Value, session) == nil {
			return r.Context(), nil
		}
	}
	return nil, oapi.ErrNoCredential
}

// Page returns the handler of the player or the trace viewer. It moves a ticket from the URL into a cookie,
// as Authorizer does. The page itself is public: it has no data.
func (s Recordings) Page(page echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, session := c.Request(), c.Param("sessionId")
		query := r.URL.Query()
		if !query.Has(ticketQuery) {
			return page(c)
		}
		setSecurityHeaders(c.Response().Header(), noAncestors)
		cleanURL := withoutTokens(r.URL, ViewPage)
		if opensPage(r, false) {
			if cookie, err := s.Tokens.RedeemRecording(query.Get(ticketQuery), session); err == nil {
				c.SetCookie(&http.Cookie{ //nolint:gosec // Secure if clients use https
					Name: ticket.RecordingCookie, Value: cookie, Path: s.Address.Path(recordingPath(session)), MaxAge: int(ticket.RecordingCookieTTL.Seconds()),
					HttpOnly: true, Secure: s.Address.Secure(), SameSite: http.SameSiteStrictMode,
				})
			}
			if isCrossSite(r) {
				return refreshToCleanURL(c, cleanURL)
			}
		}
		c.Response().Header().Set(echo.HeaderLocation, cleanURL)
		return c.NoContent(http.StatusSeeOther)
	}
}
