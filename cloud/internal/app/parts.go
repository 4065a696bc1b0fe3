package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/activity"
	"github.com/browser-svc/svc/cloud/internal/apikey"
	"github.com/browser-svc/svc/cloud/internal/audit"
	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/cloud/internal/billing"
	"github.com/browser-svc/svc/cloud/internal/catalog"
	"github.com/browser-svc/svc/cloud/internal/contact"
	"github.com/browser-svc/svc/cloud/internal/idempotency"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/mail"
	"github.com/browser-svc/svc/cloud/internal/org"
	"github.com/browser-svc/svc/cloud/internal/plan"
	"github.com/browser-svc/svc/cloud/internal/profile"
	"github.com/browser-svc/svc/cloud/internal/retention"
	"github.com/browser-svc/svc/cloud/internal/secret"
	"github.com/browser-svc/svc/cloud/internal/usage"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
)

// parts are the domains, connected.
type parts struct {
	pools         pools
	public        *url.URL
	audit         *audit.Log
	outbox        *mail.Outbox
	accounts      *auth.Service
	organizations *org.Service
	keys          *apikey.Service
	keyChecks     *apikey.Authenticator
	plans         *plan.Service
	billing       *billing.Service
	profiles      *profile.Service
	feed          *activity.Feed
	licenses      *license.Service
	catalog       *catalog.Service
	messages      *contact.Service
	answers       *idempotency.Store
	retention     *retention.Service
	requests      *usage.Service
	readiness     *httpd.Readiness
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
	p := &parts{pools: pools, public: public, plans: plan.New(pools.tenants), readiness: readiness(pools, logger)}
	p.audit = &audit.Log{DB: pools.tenants, Clock: clock.System{}, Source: source}
	if p.outbox, err = openOutbox(config, pools, box, logger); err != nil {
		return nil, err
	}
	p.keys = &apikey.Service{DB: pools.tenants, Clock: clock.System{}, Audit: p.audit, MaxLive: config.Access.MaxKeys}
	p.feed = &activity.Feed{DB: pools.tenants, Clock: clock.System{}}
	p.profiles = &profile.Service{
		DB: pools.tenants, System: pools.system, ForConfig: pools.configs, Clock: clock.System{}, Sealer: box, Limits: profileLimits{p.plans}, Recorder: p.audit,
	}
	p.messages = &contact.Service{DB: pools.tenants, Mailer: p.outbox, To: config.Mail.Contact}
	p.answers = &idempotency.Store{DB: pools.tenants, Sealer: box, Retention: config.Idempotency.Kept}
	p.requests = usage.New(usage.Options{
		DB: pools.tenants, System: pools.system, Limits: requestLimits{p.plans}, Clock: clock.System{}, Logger: logger,
	})
	p.retention = &retention.Service{DB: pools.system, Logger: logger, Periods: retention.Periods(config.Retention)}
	if p.catalog, err = openCatalog(ctx, config, pools.tenants); err != nil {
		return nil, err
	}
	if p.keyChecks, err = apikey.NewAuthenticator(ctx, pools.launches, clock.System{}, logger); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if p.licenses, err = license.New(ctx, pools.system, observer{p.profiles, p.feed}, logger, license.Options{
		BatchDB: pools.launches, Keys: p.keyChecks, Profiles: launchProfiles{p.profiles}, KnownProfiles: p.profiles,
	}); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.profiles.Live = p.licenses
	if err := p.tenancy(config, logger); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// tenancy makes what has to do with organizations, their members and what they
// pay for.
func (p *parts) tenancy(config Config, logger *slog.Logger) error {
	provider, err := paymentProvider(config)
	if err != nil {
		return err
	}
	p.billing = &billing.Service{
		DB: p.pools.tenants, System: p.pools.system, Clock: clock.System{},
		Slots: p.licenses, Audit: p.audit, Provider: provider, Logger: logger,
		SelfService: config.Access.BillingSelfService, Contact: config.Mail.Contact,
	}
	p.organizations = &org.Service{
		DB: p.pools.tenants, System: p.pools.system, Clock: clock.System{}, PublicURL: p.public,
		Provisioner: provisioner{p.plans, p.licenses, clock.System{}}, Ending: ending{p.billing, p.licenses},
		Limits: p.plans, Mail: p.outbox, Audit: p.audit, MostFree: config.Access.MaxFreeOrganizations,
	}
	p.accounts, err = auth.New(p.pools.tenants, clock.System{}, p.organizations, auth.DefaultCost)
	if err != nil {
		return err
	}
	p.accounts.Mailer, p.accounts.Public = mail.Urgent{Outbox: p.outbox}, p.public
	p.accounts.SignUps, p.accounts.Invitations = auth.SignUps(config.Access.SignUp), p.organizations
	p.organizations.Users = p.accounts
	return nil
}

// openCatalog opens the catalog and its store, which the caller closes.
func openCatalog(ctx context.Context, config Config, pool *sqlx.DB) (*catalog.Service, error) {
	store, err := catalog.OpenStore(ctx, config.ReleasesURL, filepath.Join(config.DataDir, "releases"))
	if err != nil {
		return nil, err
	}
	return &catalog.Service{DB: pool, Store: store, Clock: clock.System{}}, nil
}

// close ends what was opened, as far as it was.
func (p *parts) close() error {
	errs := []error{p.requests.Close()}
	if p.licenses != nil {
		errs = append(errs, p.licenses.Close())
	}
	if p.keyChecks != nil {
		errs = append(errs, p.keyChecks.Close())
	}
	return errors.Join(append(errs, p.catalog.Store.Close())...)
}

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
