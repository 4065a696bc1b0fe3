package rest_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/accounts/oidc"
	"github.com/browser-svc/svc/cloud/internal/accounts/oidc/oidctest"
	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/oapi/bundled"
	"github.com/browser-svc/svc/shared/testenv"
)

// signInAPI is the sign-in as in production, for users without organizations.
type signInAPI struct {
	accounts // sends the requests
	post     mailbox
	log      testenv.Log
	provider *oidctest.Provider // nil if not configured
	timeout  time.Duration      // timeout of a request; 0 for none
}

type signInHandlers struct {
	unimplemented
	rest.Auth
}

func newSignIn(t *testing.T) *signInAPI { return startSignIn(t, false) }

func newSingleSignOn(t *testing.T) *signInAPI { return startSignIn(t, true) }

func startSignIn(t *testing.T, single bool) *signInAPI {
	t.Helper()
	s := &signInAPI{accounts: accounts{t: t, db: dbtest.New(t), clock: clock.NewFake(time.Now().Truncate(time.Microsecond))}}
	var routes http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.timeout > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), s.timeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		routes.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	public, err := url.Parse(server.URL)
	must(t, err)
	users, err := auth.New(s.db, s.clock, noOrganizations{}, auth.Cost{MemoryKiB: 64, Iterations: 1})
	must(t, err)
	users.Mailer, users.Public, users.SignUpPolicy = &s.post, public, auth.SignUpOpen
	document := contracttest.Load(t, "cloud.yaml")
	e := s.guarded(users, public, document)
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(signInHandlers{Auth: rest.Auth{Accounts: users}}, nil))
	on := rest.SingleSignOn{Accounts: users, Public: public}
	if single {
		redirect := public.JoinPath("v1/auth/oidc/callback").String()
		s.provider = oidctest.Start(t, oidctest.Options{RedirectURL: redirect})
		on.Provider = oidc.New(oidc.Config{
			Issuer: s.provider.Issuer, ClientID: s.provider.Client.ID, ClientSecret: s.provider.Client.Secret, RedirectURL: redirect,
		})
	}
	on.Register(e)
	rest.Dashboard{Bundle: dashboardBundle(t, public)}.Register(e)
	routes = e
	s.client, s.url = contracttest.New(t, document, nil), server.URL
	return s
}

func (s *signInAPI) guarded(users *auth.Service, public *url.URL, document *bundled.Document) *echo.Echo {
	s.t.Helper()
	g, err := access.New(users, noKeys{}, noOrganizations{}, public)
	must(s.t, err)
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: g.Authenticators(), Authorize: g.Authorize})
	must(s.t, err)
	e := httpd.New(httpd.Options{Document: document, Logger: slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	e.Use(guard.Middleware(), g.RequireSameOrigin)
	return e
}

// noOrganizations are users without memberships.
type noOrganizations struct{}

func (noOrganizations) Organizations(context.Context, uuid.UUID) ([]uuid.UUID, error) {
	return nil, nil
}

func (noOrganizations) Role(context.Context, uuid.UUID, uuid.UUID) (string, error) { return "", nil }

// mailbox keeps the mails.
type mailbox struct {
	mu    sync.Mutex
	texts []string
}

func (l *mailbox) Send(_ context.Context, _ *sqlx.Tx, recipient, _, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = append(l.texts, "To: "+recipient+"\n"+text)
	return nil
}

// token returns the token of the last mail with a link to the page.
func (l *mailbox) token(t *testing.T, page string) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.texts) - 1; i >= 0; i-- {
		if _, after, found := strings.Cut(l.texts[i], "/account/"+page+"#token="); found {
			token, _, _ := strings.Cut(after, "\n")
			return token
		}
	}
	t.Fatalf("no mail links to %s: %v", page, l.texts)
	return ""
}

// wantUnlogged checks that the log is not empty and contains none of the secrets.
func (s *signInAPI) wantUnlogged(secrets ...string) {
	s.t.Helper()
	log := s.log.String()
	if !strings.Contains(log, "/v1/auth/") {
		s.t.Fatalf("the log has no request: %s", log)
	}
	for _, secret := range secrets {
		if secret == "" || strings.Contains(log, secret) {
			s.t.Errorf("%q is in the log, or is no secret", secret)
		}
	}
}

// browser returns the client with a cookie jar.
func (s *signInAPI) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	must(s.t, err)
	with := *s.client
	with.Jar = jar
	return &with
}
