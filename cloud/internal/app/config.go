package app

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/tracing"
)

// Config is the cloud's configuration.
type Config struct {
	Host           string         `env:"HOST" doc:"The address to listen on. When unset, the cloud listens on all addresses."`
	Port           int            `env:"PORT" envDefault:"8080" doc:"The port to listen on, also of svc-cloud registry."`
	PublicURL      string         `env:"PUBLIC_URL" doc:"The URL at which browsers reach the service; http://localhost:PORT when unset. With https, cookies are marked Secure."`
	DatabaseURL    string         `env:"DATABASE_URL" secret:"true" doc:"The URL of the PostgreSQL database. It may name several hosts, such as postgres://h1:5432,h2:5432/db; the cloud uses the one that accepts writes. When unset, the cloud runs an embedded PostgreSQL in DATA_DIR."`
	DataDir        string         `env:"DATA_DIR" envDefault:".svc/cloud" doc:"The directory of the embedded PostgreSQL, the generated secret key, browser builds and mail written to files."`
	ReleasesURL    string         `env:"RELEASES_URL" secret:"true" doc:"The store of the browser builds in the catalog: a file://, s3:// or gs:// URL; DATA_DIR/releases when unset."`
	SecretKeys     string         `env:"SECRET_KEYS" secret:"true" doc:"The keys that encrypt proxy passwords, client certificates, queued mail and saved idempotency answers: a comma-separated list of id:key, each key 32 bytes in base64. The first key encrypts; all of them decrypt. When unset, a key is generated and stored in DATA_DIR."`
	ShutdownDelay  time.Duration  `env:"SHUTDOWN_DELAY" envDefault:"0s" doc:"How long the cloud continues to serve requests after SIGTERM, with /readyz failing so that load balancers stop sending traffic, before it closes the port. The container image sets 5s."`
	TrustedProxies []netip.Prefix `env:"TRUSTED_PROXIES" doc:"The networks of load balancers whose X-Forwarded-For header is trusted, separated by commas."`
	MaxConnections int            `env:"MAX_CONNECTIONS" envDefault:"10000" doc:"The maximum number of concurrent client connections; further connections wait to be accepted. 0 for no limit."`
	Mail           MailConfig
	Access         AccessConfig
	SingleSignOn   SingleSignOnConfig
	Stripe         StripeConfig
	RegistryURL    string `env:"REGISTRY_URL" doc:"The registry of the worker's container image, such as registry.example.com. When unset, no image path is shown."`
	Registry       RegistryConfig
	Retention      time.Duration `env:"RETENTION" envDefault:"9600h" doc:"How long ended sessions, audit events and messages of POST /v1/contact are kept; 0 keeps them forever."`
	Metrics        metrics.Config
	Traces         tracing.Config
	Logging        program.Logging
}

// AccessConfig limits what visitors and users may do without the operator; 0 is
// no limit.
type AccessConfig struct {
	SignUp               string `env:"SIGN_UP" doc:"Who may create an account, including by single sign-on: open (anyone), invite (only people invited to an organization) or closed (nobody). When unset, open until the first user exists, then invite."`
	BillingSelfService   bool   `env:"BILLING_SELF_SERVICE" envDefault:"false" doc:"Allow owners and admins to change plans and add-ons when there is no payment provider. When false, only an operator can, with svc-cloud organizations plan."`
	MaxFreeOrganizations int    `env:"MAX_FREE_ORGANIZATIONS_PER_USER" envDefault:"3" doc:"The maximum number of organizations on the free plan that a user can create; 0 for no limit."`
	MaxKeys              int    `env:"MAX_KEYS_PER_ORGANIZATION" envDefault:"50" doc:"The maximum number of active keys of an organization; 0 for no limit."`
}

func (a AccessConfig) validate() error {
	switch auth.SignUpPolicy(a.SignUp) {
	case auth.SignUpFirst, auth.SignUpOpen, auth.SignUpInvite, auth.SignUpClosed:
	default:
		return fmt.Errorf("SIGN_UP must be open, invite or closed, not %q", a.SignUp)
	}
	if a.MaxFreeOrganizations < 0 || a.MaxKeys < 0 {
		return fmt.Errorf("MAX_FREE_ORGANIZATIONS_PER_USER and MAX_KEYS_PER_ORGANIZATION must not be negative")
	}
	return nil
}

// MailConfig configures outgoing mail.
type MailConfig struct {
	SMTPURL string `env:"SMTP_URL" secret:"true" doc:"The mail server: smtp://user:password@host:port (STARTTLS) or smtps://. When unset, mail is written to files in DATA_DIR/mail."`
	From    string `env:"MAIL_FROM" envDefault:"svc <no-reply@localhost>" doc:"The sender of mail: an address or Name <address>."`
	Contact string `env:"CONTACT_EMAIL" doc:"The address that receives the messages of POST /v1/contact by mail. The messages are always stored in the database."`
}

// SingleSignOnConfig configures the OpenID provider.
type SingleSignOnConfig struct {
	Issuer       string `env:"OIDC_ISSUER" doc:"The issuer URL of the OpenID provider for single sign-on, as in its tokens. When unset, single sign-on is off. The redirect URL to register at the provider is PUBLIC_URL/v1/auth/oidc/callback."`
	ClientID     string `env:"OIDC_CLIENT_ID" doc:"The client ID of this service at the OpenID provider."`
	ClientSecret string `env:"OIDC_CLIENT_SECRET" secret:"true" doc:"The client secret of this service at the OpenID provider."`
}

// StripeConfig configures the payment provider; empty for manual billing.
type StripeConfig struct {
	SecretKey     string `env:"STRIPE_SECRET_KEY" secret:"true" doc:"The Stripe secret key. When set, Stripe bills subscriptions. When unset, billing is manual: invoices are recorded, and BILLING_SELF_SERVICE determines who can change plans."`
	WebhookSecret string `env:"STRIPE_WEBHOOK_SECRET" secret:"true" doc:"The signing secret of the Stripe webhook endpoint PUBLIC_URL/v1/webhooks/stripe."`
	APIBase       string `env:"STRIPE_API_BASE" doc:"The base URL of the Stripe API, for tests; the public Stripe API when unset."`
}

// Validate checks the values that a type alone cannot check.
func (c Config) Validate() error {
	if _, err := c.public(); err != nil {
		return err
	}
	if c.SecretKeys != "" {
		if _, err := secret.Parse(c.SecretKeys); err != nil {
			return fmt.Errorf("SECRET_KEYS: %w", err)
		}
	}
	if err := c.Access.validate(); err != nil {
		return err
	}
	_, err := c.Registry.upstream()
	if err := errors.Join(err, c.Metrics.Validate(), c.Traces.Validate()); err != nil {
		return err
	}
	if c.MaxConnections < 0 {
		return fmt.Errorf("MAX_CONNECTIONS must not be negative")
	}
	if c.ShutdownDelay < 0 {
		return fmt.Errorf("SHUTDOWN_DELAY must not be negative")
	}
	if sso := c.SingleSignOn; (sso.Issuer == "") != (sso.ClientID == "") || (sso.Issuer == "") != (sso.ClientSecret == "") {
		return fmt.Errorf("OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET must be set together")
	}
	if (c.Stripe.SecretKey == "") != (c.Stripe.WebhookSecret == "") {
		return fmt.Errorf("STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET must be set together")
	}
	if c.Retention < 0 {
		return fmt.Errorf("RETENTION must not be negative")
	}
	return nil
}

// public returns the URL at which browsers reach the service.
func (c Config) public() (*url.URL, error) {
	address := c.PublicURL
	if address == "" {
		address = fmt.Sprintf("http://localhost:%d", c.Port)
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("PUBLIC_URL must be an http or https URL")
	}
	return base, nil
}
