package app

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/browser-svc/svc/cloud/internal/accounts/oidc"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/platform/mail"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripe"
	"github.com/browser-svc/svc/shared/clock"
)

// openOutbox returns an outbox that sends through SMTP_URL, or writes files if it
// is unset.
func openOutbox(config Config, pools pools, sealer mail.Sealer, logger *slog.Logger) (*mail.Outbox, error) {
	outbox := &mail.Outbox{DB: pools.tenants, Sealer: sealer, Logger: logger}
	if config.Mail.SMTPURL == "" {
		if config.DatabaseURL != "" {
			logger.Warn("SMTP_URL is not set: mail is only written to files in DATA_DIR")
		}
		outbox.Transport = &mail.Directory{Path: filepath.Join(config.DataDir, "mail"), From: config.Mail.From, Logger: logger}
		return outbox, nil
	}
	server, err := mail.ParseSMTP(config.Mail.SMTPURL, config.Mail.From)
	if err != nil {
		return nil, fmt.Errorf("SMTP_URL and MAIL_FROM: %w", err)
	}
	outbox.Transport = server
	return outbox, nil
}

// paymentProvider returns Stripe if it is configured, else manual billing.
func paymentProvider(config Config) (billing.Provider, error) {
	if config.Stripe.SecretKey == "" {
		return billing.Manual{Clock: clock.System{}}, nil
	}
	return stripe.New(stripe.Config(config.Stripe))
}

// newSingleSignOn returns the single sign-on handlers; without an issuer they
// answer NotFound.
func (p *services) newSingleSignOn(config Config) rest.SingleSignOn {
	sso := rest.SingleSignOn{Accounts: p.accounts, Public: p.public}
	if config.SingleSignOn.Issuer != "" {
		sso.Provider = oidc.New(oidc.Config{
			Issuer: config.SingleSignOn.Issuer, ClientID: config.SingleSignOn.ClientID,
			ClientSecret: config.SingleSignOn.ClientSecret, RedirectURL: p.public.JoinPath("v1/auth/oidc/callback").String(),
		})
	}
	return sso
}
