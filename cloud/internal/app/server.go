package app

import (
	"fmt"
	"log/slog"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/cloud/internal/api/replay"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/webapp"
)

// newWebServer returns the web server with all routes.
func (p *services) newWebServer(config Config, logger *slog.Logger) (*echo.Echo, httpd.Options, error) {
	document, err := oapi.Parse(cloudapi.Document)
	if err != nil {
		return nil, httpd.Options{}, err
	}
	door, err := access.New(p.accounts, p.keyVerifier, p.organizations, p.public)
	if err != nil {
		return nil, httpd.Options{}, err
	}
	door.Requests = p.usage
	options := httpd.Options{
		Logger: logger, Document: document, Name: "svc-cloud", Version: program.Version, TrustedProxies: config.TrustedProxies,
		MaxConnections: config.MaxConnections, Observe: p.metrics.observer(document), Traces: p.traces,
	}
	web, guard, err := newRouter(options, document, door, p.idempotency)
	if err != nil {
		return nil, httpd.Options{}, err
	}
	server := p.handlers(config, document.ContractVersion())
	server.CheckAgain = guard.CheckAgain
	cloudapi.RegisterHandlers(web, cloudapi.NewStrictHandler(server, []cloudapi.StrictMiddlewareFunc{allowWaiting}))
	pages, err := webapp.New(p.dashboard, webapp.Options{Public: p.public})
	if err != nil {
		return nil, httpd.Options{}, fmt.Errorf("dashboard: %w", err)
	}
	for _, raw := range p.rawHandlers(config, server, pages) {
		raw.Register(web)
	}
	config.Metrics.Register(web, p.metrics.handler(logger), nil)
	return web, options, nil
}

// newRouter returns a router with the middleware that every request passes before
// its handler, and the guard among it.
func newRouter(options httpd.Options, document *oapi.Document, authorizer *access.Authorizer, answers replay.Store) (*echo.Echo, *oapi.Guard, error) {
	guard, err := oapi.NewGuard(document, oapi.Options{Authenticators: authorizer.Authenticators(), Authorize: authorizer.Authorize})
	if err != nil {
		return nil, nil, err
	}
	web := httpd.New(options)
	web.Use(mapOutages(requestTimeout), authorizer.RejectInvalidKey, guard.Middleware(), authorizer.RequireSameOrigin, authorizer.RateLimitHeaders,
		replay.New(guard, answers, options.Logger).Middleware, mapHandlerOutages)
	return web, guard, nil
}

// handlers returns the handlers of the generated server interface.
func (p *services) handlers(config Config, contract string) rest.Server {
	return rest.Server{
		Health: rest.Health{
			Database: p.database, Readiness: p.readiness, Version: program.Version, ContractVersion: contract,
		},
		Auth: rest.Auth{
			Accounts: p.accounts, SecureCookies: p.public.Scheme == "https", SingleSignOn: config.SingleSignOn.Issuer != "",
			Mail: config.Mail.SMTPURL != "",
		},
		AccessTokens:    rest.AccessTokens{Tokens: p.accounts},
		ServiceAccounts: rest.ServiceAccounts{Accounts: p.accounts},
		Organizations:   rest.Organizations{Organizations: p.organizations, Activation: p.accounts},
		Members:         rest.Members{Members: p.organizations},
		Invitations:     rest.Invitations{Invitations: p.organizations},
		APIKeys:         rest.APIKeys{Keys: p.keys, Connect: apikey.Connector{Cloud: p.public, Registry: config.RegistryURL}},
		Billing:         rest.Billing{Subscriptions: p.billing, Public: p.public},
		Contact:         rest.Contact{Messages: p.contact},
		Audit:           rest.Audit{Events: p.audit},
		Plans:           rest.Plans{Plans: p.plans},
		Profiles:        rest.Profiles{Profiles: p.profiles, Requests: p.usage},
		ProfileData:     rest.ProfileData{Data: p.profileData},
		Secrets:         rest.Secrets{Secrets: p.secrets},
		Webhooks:        rest.Webhooks{Webhooks: p.webhooks},
		Sessions:        rest.Sessions{Feed: p.activity, Licenses: p.licenses},
		Machines:        rest.Machines{Machines: p.licenses},
		License: rest.License{
			Licenses: p.licenses, Profiles: launchProfiles{p.profiles}, Feed: p.activity,
			Ends: &activity.Feed{DB: p.pools.launches, Clock: clock.System{}}, Events: &webhook.Service{DB: p.pools.launches},
		},
		Releases: rest.Releases{Catalog: p.catalog, Public: p.public},
	}
}

// rawHandlers returns the handlers that do not answer JSON and register their own
// routes.
func (p *services) rawHandlers(config Config, server rest.Server, pages *webapp.Bundle) []interface{ Register(web *echo.Echo) } {
	return []interface{ Register(web *echo.Echo) }{
		server.Releases,
		server.Webhooks,
		p.newSingleSignOn(config),
		rest.Dashboard{Bundle: pages},
		rest.StripeWebhook{Events: countedEvents{p.billing, p.metrics.webhookFailures}},
	}
}
