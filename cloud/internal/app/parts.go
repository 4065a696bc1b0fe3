package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/activity"
	"github.com/browser-svc/svc/cloud/internal/apikey"
	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/cloud/internal/catalog"
	"github.com/browser-svc/svc/cloud/internal/gate"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/org"
	"github.com/browser-svc/svc/cloud/internal/plan"
	"github.com/browser-svc/svc/cloud/internal/profile"
	"github.com/browser-svc/svc/cloud/internal/rest"
	"github.com/browser-svc/svc/cloud/internal/secret"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/openapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/version"
)

// parts are the domains, connected.
type parts struct {
	pools         pools
	public        *url.URL
	accounts      *auth.Service
	organizations *org.Service
	keys          *apikey.Service
	plans         *plan.Service
	profiles      *profile.Service
	feed          *activity.Feed
	licenses      *license.Service
	catalog       *catalog.Service
}

func assemble(ctx context.Context, config Config, pools pools, logger *slog.Logger) (*parts, error) {
	public, err := config.public()
	if err != nil {
		return nil, err
	}
	box, err := secrets(config, logger)
	if err != nil {
		return nil, err
	}
	p := &parts{pools: pools, public: public, keys: apikey.New(pools.system, clock.System{}), plans: plan.New(pools.system)}
	p.feed = &activity.Feed{DB: pools.tenants, Clock: clock.System{}}
	p.profiles = &profile.Service{DB: pools.tenants, Clock: clock.System{}, Sealer: box, Limits: profileLimits{p.plans}}
	p.licenses, err = license.New(ctx, pools.system, observer{p.profiles, p.feed}, logger, license.Options{})
	if err != nil {
		return nil, err
	}
	p.profiles.Live = p.licenses
	if p.catalog, err = openCatalog(ctx, config, pools.tenants); err != nil {
		return nil, errors.Join(err, p.licenses.Close())
	}
	p.organizations = org.New(pools.system, clock.System{}, provisioner{p.plans, p.licenses, clock.System{}})
	p.accounts, err = auth.New(pools.tenants, clock.System{}, p.organizations, auth.DefaultCost)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// openCatalog opens the catalog and its store, which the caller closes.
func openCatalog(ctx context.Context, config Config, pool *sqlx.DB) (*catalog.Service, error) {
	store, err := catalog.OpenStore(ctx, config.ReleasesURL, filepath.Join(config.DataDir, "releases"))
	if err != nil {
		return nil, err
	}
	return &catalog.Service{DB: pool, Store: store, Clock: clock.System{}}, nil
}

func (p *parts) close() error { return errors.Join(p.licenses.Close(), p.catalog.Store.Close()) }

// secrets is what encrypts proxy passwords.
func secrets(config Config, logger *slog.Logger) (*secret.Box, error) {
	if config.SecretKeys != "" {
		return secret.Parse(config.SecretKeys)
	}
	if config.DatabaseURL != "" {
		logger.Warn("SECRET_KEYS is not set: proxy passwords are encrypted with a key in DATA_DIR, which other replicas don't have")
	}
	if err := os.MkdirAll(config.DataDir, 0o711); err != nil {
		return nil, fmt.Errorf("make DATA_DIR: %w", err)
	}
	return secret.LoadOrCreate(secretPath(config))
}

// route builds the web server.
func (p *parts) route(ctx context.Context, config Config, logger *slog.Logger) (*echo.Echo, httpd.Options, error) {
	document, err := oapi.Load(ctx, openapi.Files, "cloud.yaml")
	if err != nil {
		return nil, httpd.Options{}, err
	}
	door, err := gate.New(p.accounts, p.keys, p.organizations, p.public)
	if err != nil {
		return nil, httpd.Options{}, err
	}
	guard, err := oapi.NewGuard(document, oapi.Options{Authenticators: door.Authenticators(), Authorize: door.Authorize})
	if err != nil {
		return nil, httpd.Options{}, err
	}
	options := httpd.Options{
		Logger: logger, Document: document, Name: "svc-cloud", Version: version.Version, TrustedProxies: config.TrustedProxies,
	}
	web := httpd.New(options)
	web.Use(door.Anonymous, guard.Middleware())
	server := p.server()
	cloudapi.RegisterHandlers(web, cloudapi.NewStrictHandler(server, nil))
	server.Register(web)
	return web, options, nil
}

// server is the handlers, each with the services that it calls.
func (p *parts) server() rest.Server {
	return rest.Server{
		Health:        rest.Health{Database: healthy{p.pools.tenants}, Version: version.Version},
		Auth:          rest.Auth{Accounts: p.accounts, SecureCookies: p.public.Scheme == "https"},
		Organizations: rest.Organizations{Organizations: p.organizations, Activation: p.accounts},
		APIKeys:       rest.APIKeys{Keys: p.keys},
		Plans:         rest.Plans{Plans: p.plans},
		Profiles:      rest.Profiles{Profiles: p.profiles},
		Sessions:      rest.Sessions{Feed: p.feed},
		License:       rest.License{Licenses: p.licenses, Profiles: launchProfiles{p.profiles}},
		Releases:      rest.Releases{Catalog: p.catalog, Public: p.public},
	}
}

// provisioner gives a new organization its plan and its slots.
type provisioner struct {
	plans    *plan.Service
	licenses *license.Service
	clock    clock.Clock
}

// Provision implements org.Provisioner.
func (p provisioner) Provision(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	if err := p.plans.Subscribe(ctx, tx, orgID, plan.Free, p.clock.Now()); err != nil {
		return err
	}
	limits, err := p.plans.Limits(ctx, tx, orgID)
	if err != nil {
		return err
	}
	return p.licenses.SetLimit(ctx, tx, orgID, limits.Profiles)
}

// profileLimits is what profiles need of plans.
type profileLimits struct{ *plan.Service }

// Ceilings implements profile.Limits.
func (p profileLimits) Ceilings(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (profile.Ceilings, error) {
	limits, err := p.Limits(ctx, q, orgID)
	return profile.Ceilings{
		ProfileLimit: limits.Profiles, MemberLimit: limits.Members, APIRpmLimit: limits.APIRpm, APIRphLimit: limits.APIRph,
	}, err
}

// launchProfiles makes the profiles of launches by spec.
type launchProfiles struct{ *profile.Service }

// CreateEphemeral reports a full organization in the license's own words.
func (p launchProfiles) CreateEphemeral(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, draft profile.Draft) (uuid.UUID, error) {
	id, err := p.Service.CreateEphemeral(ctx, tx, orgID, draft)
	var full *profile.LimitError
	if errors.As(err, &full) {
		return uuid.Nil, license.ProfileLimitError{Current: full.Current, Limit: full.Limit}
	}
	return id, err
}
