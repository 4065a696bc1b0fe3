package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/cloud/internal/browsers/catalog"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/browsers/profiledata"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/platform/audit"
	"github.com/browser-svc/svc/cloud/internal/platform/contact"
	"github.com/browser-svc/svc/cloud/internal/platform/idempotency"
	"github.com/browser-svc/svc/cloud/internal/platform/mail"
	"github.com/browser-svc/svc/cloud/internal/platform/retention"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/cloud/internal/tenancy/usage"
	"github.com/browser-svc/svc/cloud/internal/tenancy/vault"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook/sender"
	"github.com/browser-svc/svc/gen/dashboard"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/tracing"
)

// services are the cloud's services, connected to each other.
type services struct {
	closers       program.Closers
	pools         pools
	public        *url.URL
	dashboard     fs.FS // the built dashboard
	audit         *audit.Log
	outbox        *mail.Outbox
	accounts      *auth.Service
	organizations *org.Service
	keys          *apikey.Service
	keyVerifier   *apikey.Verifier
	plans         *plan.Service
	billing       *billing.Service
	profiles      *profile.Service
	profileData   *profiledata.Service
	activity      *activity.Feed
	licenses      *license.Service
	catalog       *catalog.Service
	contact       *contact.Service
	secrets       *vault.Service
	webhooks      *webhook.Service
	idempotency   *idempotency.Store
	retention     *retention.Service
	usage         *usage.Service
	database      databaseHealth
	readiness     *httpd.Readiness
	metrics       *serviceMetrics
	traces        *tracing.Tracing
}

// assemble creates the services. The caller must close them with closers.
func assemble(ctx context.Context, config Config, pools pools, logger *slog.Logger) (_ *services, err error) {
	public, err := config.public()
	if err != nil {
		return nil, err
	}
	box, err := openSecretBox(config, logger)
	if err != nil {
		return nil, err
	}
	database := newDatabaseHealth(pools.launches, logger)
	p := &services{
		pools: pools, public: public, dashboard: dashboard.Files, plans: plan.New(pools.tenants),
		database: database, readiness: newReadiness(database, logger),
		metrics: newServiceMetrics(),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.closers.Close())
		}
	}()
	p.closers.AddFunc(database.Close)
	p.audit = &audit.Log{DB: pools.tenants, Clock: clock.System{}, Source: auditSource}
	if p.outbox, err = openOutbox(config, pools, box, logger); err != nil {
		return nil, err
	}
	p.keys = &apikey.Service{DB: pools.tenants, Clock: clock.System{}, Audit: p.audit, MaxLive: config.Access.MaxKeys}
	p.activity = &activity.Feed{DB: pools.tenants, Clock: clock.System{}}
	p.profiles = &profile.Service{
		DB: pools.tenants, System: pools.system, ConfigDB: pools.configs, Clock: clock.System{}, Sealer: box, Limits: profileLimits{p.plans}, Recorder: p.audit,
		Decryptions: make(chan struct{}, maxDecryptions),
	}
	p.profileData = &profiledata.Service{DB: pools.tenants, System: pools.system, Sealer: box, Recorder: p.audit}
	p.secrets = &vault.Service{DB: pools.tenants, Clock: clock.System{}, Sealer: box, Audit: p.audit}
	requests := sender.New(config.WebhookNetworks)
	p.closers.AddFunc(requests.Close)
	p.webhooks = &webhook.Service{
		DB: pools.tenants, System: pools.system, Clock: clock.System{}, Sealer: box, Audit: p.audit, Logger: logger,
		Sender: requests, AllowHTTP: len(config.WebhookNetworks) > 0, OfflineAfter: license.OfflineAfter, UserAgent: "svc-cloud/" + program.Version,
	}
	p.contact = &contact.Service{DB: pools.tenants, Mailer: p.outbox, To: config.Mail.Contact}
	p.idempotency = &idempotency.Store{DB: pools.tenants, Sealer: box}
	p.usage = usage.New(usage.Options{
		DB: pools.tenants, System: pools.system, Limits: requestLimits{p.plans}, Clock: clock.System{}, Logger: logger,
	})
	p.closers.Add(p.usage.Close)
	p.retention = &retention.Service{DB: pools.system, Logger: logger, Period: config.Retention}
	if p.catalog, err = openCatalog(ctx, config, pools.tenants); err != nil {
		return nil, err
	}
	p.closers.Add(p.catalog.Store.Close)
	if p.traces, err = tracing.Open(ctx, config.Traces, "svc-cloud", program.Version, logger); err != nil {
		return nil, err
	}
	p.closers.Add(p.closeTraces)
	if err := p.openLicenses(ctx, logger); err != nil {
		return nil, err
	}
	return p, p.assembleTenancy(config, logger)
}

// openLicenses creates the services that check keys and count slots.
func (p *services) openLicenses(ctx context.Context, logger *slog.Logger) (err error) {
	if p.keyVerifier, err = apikey.NewVerifier(ctx, p.pools.launches, clock.System{}, logger); err != nil {
		return err
	}
	p.closers.Add(p.keyVerifier.Close)
	if p.licenses, err = license.New(ctx, p.pools.system, sessionObserver{p.profiles, p.activity}, logger, license.Options{
		BatchDB: p.pools.launches, Keys: p.keyVerifier, Profiles: launchProfiles{p.profiles}, KnownProfiles: p.profiles, Retention: retention.Records,
		Metrics: license.NewMetrics(p.metrics.registry),
	}); err != nil {
		return err
	}
	p.closers.Add(p.licenses.Close)
	p.profiles.LiveSessions = p.licenses
	collector := newStateCollector(p, logger)
	p.closers.AddFunc(collector.state.Close)
	p.metrics.registry.MustRegister(collector)
	return nil
}

// assembleTenancy creates the services for billing, organizations and accounts.
func (p *services) assembleTenancy(config Config, logger *slog.Logger) error {
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
		Provisioner: provisioner{p.plans, p.licenses, clock.System{}}, Ender: organizationEnder{p.billing, p.licenses, p.profileData},
		Limits: p.plans, Mail: p.outbox, Audit: p.audit, MaxFree: config.Access.MaxFreeOrganizations,
		WithoutMail: config.Mail.SMTPURL == "",
	}
	p.accounts, err = auth.New(p.pools.tenants, clock.System{}, p.organizations, auth.DefaultCost)
	if err != nil {
		return err
	}
	p.accounts.Mailer, p.accounts.Public = mail.Urgent{Outbox: p.outbox}, p.public
	p.accounts.SignUpPolicy, p.accounts.Invitations = auth.SignUpPolicy(config.Access.SignUp), p.organizations
	p.accounts.WithoutMail = p.organizations.WithoutMail
	p.accounts.System, p.accounts.Audit = p.pools.system, p.audit
	p.organizations.Users = p.accounts
	return nil
}

// openCatalog opens the catalog and its store. The caller closes the store.
func openCatalog(ctx context.Context, config Config, pool *sqlx.DB) (*catalog.Service, error) {
	store, err := catalog.OpenStore(ctx, config.ReleasesURL, filepath.Join(config.DataDir, "releases"))
	if err != nil {
		return nil, err
	}
	return &catalog.Service{DB: pool, Store: store, Clock: clock.System{}}, nil
}

// tracesTimeout is the timeout of the export of the last traces.
const tracesTimeout = 5 * time.Second

// maxDecryptions is how many requests decrypt keys of client certificates at once, each with
// up to 256 MiB of memory.
const maxDecryptions = 1

// closeTraces delivers the last traces.
func (p *services) closeTraces() error {
	ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	return p.traces.Close(ctx)
}

// openSecretBox returns the box that encrypts secrets, proxy passwords, queued mail and
// saved answers.
func openSecretBox(config Config, logger *slog.Logger) (*secret.Box, error) {
	if config.SecretKeys != "" {
		return secret.Parse(config.SecretKeys)
	}
	if config.DatabaseURL != "" {
		logger.Warn("SECRET_KEYS is not set: secrets are encrypted with a key in DATA_DIR, which other replicas do not have")
	}
	if err := os.MkdirAll(config.DataDir, 0o711); err != nil {
		return nil, fmt.Errorf("create DATA_DIR: %w", err)
	}
	return secret.LoadOrCreate(secretPath(config))
}
