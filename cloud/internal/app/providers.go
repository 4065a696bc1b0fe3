package app

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/browser-svc/svc/cloud/internal/billing"
	"github.com/browser-svc/svc/cloud/internal/billing/stripe"
	"github.com/browser-svc/svc/cloud/internal/mail"
	"github.com/browser-svc/svc/cloud/internal/oidc"
	"github.com/browser-svc/svc/cloud/internal/rest"
	"github.com/browser-svc/svc/shared/clock"
)

// openOutbox sends mail by the server of SMTP_URL, else into files.
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

// paymentProvider is Stripe when it is configured.
func paymentProvider(config Config) (billing.Provider, error) {
	if config.Stripe.SecretKey == "" {
		return billing.Manual{Clock: clock.System{}}, nil
	}
	return stripe.New(stripe.Config(config.Stripe))
}

// newSingleSignOn has a provider when one is configured.
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
