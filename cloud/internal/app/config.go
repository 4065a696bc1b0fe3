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
	Port        int    `env:"PORT" envDefault:"8080" group:"Most important" doc:"Port to listen on, also of svc-cloud registry."`
	PublicURL   string `env:"PUBLIC_URL" doc:"URL at which browsers reach the service; with https, cookies are marked Secure. Default: http://localhost:PORT."`
	DatabaseURL string `env:"DATABASE_URL" secret:"true" doc:"URL of the PostgreSQL database. Default: an embedded PostgreSQL in DATA_DIR."`
	DataDir     string `env:"DATA_DIR" envDefault:".svc/cloud" doc:"Directory of the embedded PostgreSQL, the generated secret key, browser builds and mail."`
	SecretKeys  string `env:"SECRET_KEYS" secret:"true" doc:"Keys that encrypt stored secrets: id:key, each key 32 bytes in base64, separated by commas. Default: a generated key in DATA_DIR."`
	ReleasesURL string `env:"RELEASES_URL" secret:"true" doc:"Store of the browser builds in the catalog: a file://, s3:// or gs:// URL. Default: DATA_DIR/releases."`
	Mail        MailConfig
	Retention   time.Duration `env:"RETENTION" envDefault:"9600h" doc:"How long ended sessions, audit events and messages of POST /v1/contact are kept. 0: forever."`

	Host            string         `env:"HOST" group:"Network and shutdown" doc:"Address to listen on. Default: all addresses."`
	TrustedProxies  []netip.Prefix `env:"TRUSTED_PROXIES" doc:"Networks of load balancers whose X-Forwarded-For header is trusted, separated by commas."`
	MaxConnections  int            `env:"MAX_CONNECTIONS" envDefault:"10000" doc:"Maximum number of client connections at once; further ones wait to be accepted. 0: no limit."`
	WebhookNetworks []netip.Prefix `env:"WEBHOOK_ALLOWED_NETWORKS" doc:"Networks without public addresses in which webhook endpoints may be, separated by commas; http:// is allowed then too. Default: none."`
	ShutdownDelay   time.Duration  `env:"SHUTDOWN_DELAY" envDefault:"0s" doc:"How long requests are served after SIGTERM while /readyz reports not ready; the image sets 5s."`

	Access       AccessConfig       `group:"Accounts and limits"`
	SingleSignOn SingleSignOnConfig `group:"Single sign-on"`
	Stripe       StripeConfig       `group:"Payments"`

	RegistryURL string `env:"REGISTRY_URL" group:"Registry of the worker's image" doc:"Registry of the worker's container image, such as registry.example.com. Default: no image path is shown."`
	Registry    RegistryConfig

	Metrics metrics.Config `group:"Metrics, traces and logs"`
	Traces  tracing.Config
	Logging program.Logging
}

// AccessConfig limits what visitors and users may do without the operator; 0 is
// no limit.
type AccessConfig struct {
	SignUp               string `env:"SIGN_UP" doc:"Who may create an account: open, invite (invited people) or closed. Default: open until the first user exists, then invite."`
	BillingSelfService   bool   `env:"BILLING_SELF_SERVICE" envDefault:"false" doc:"Allow owners and admins to change plans and add-ons when there is no payment provider."`
	MaxFreeOrganizations int    `env:"MAX_FREE_ORGANIZATIONS_PER_USER" envDefault:"3" doc:"Maximum number of organizations on the free plan that a user can create. 0: no limit."`
	MaxKeys              int    `env:"MAX_KEYS_PER_ORGANIZATION" envDefault:"50" doc:"Maximum number of active keys of an organization. 0: no limit."`
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
	SMTPURL string `env:"SMTP_URL" secret:"true" doc:"Mail server: smtp://user:password@host:port (STARTTLS) or smtps://. Default: files in DATA_DIR/mail."`
	From    string `env:"MAIL_FROM" envDefault:"svc <no-reply@localhost>" doc:"Sender of mail: an address or Name <address>."`
	Contact string `env:"CONTACT_EMAIL" doc:"Address that receives the messages of POST /v1/contact by mail."`
}

// SingleSignOnConfig configures the OpenID provider.
type SingleSignOnConfig struct {
	Issuer       string `env:"OIDC_ISSUER" doc:"Issuer URL of the OpenID provider, as in its tokens. Default: no single sign-on."`
	ClientID     string `env:"OIDC_CLIENT_ID" doc:"Client ID of this service at the OpenID provider."`
	ClientSecret string `env:"OIDC_CLIENT_SECRET" secret:"true" doc:"Client secret of this service at the OpenID provider."`
}

// StripeConfig configures the payment provider; empty for manual billing.
type StripeConfig struct {
	SecretKey     string `env:"STRIPE_SECRET_KEY" secret:"true" doc:"Stripe secret key. Default: manual billing."`
	WebhookSecret string `env:"STRIPE_WEBHOOK_SECRET" secret:"true" doc:"Signing secret of the Stripe webhook endpoint PUBLIC_URL/v1/webhooks/stripe."`
	APIBase       string `env:"STRIPE_API_BASE" doc:"Base URL of the Stripe API, for tests. Default: the public Stripe API."`
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
