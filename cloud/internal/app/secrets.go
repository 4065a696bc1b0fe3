package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/browser-svc/svc/cloud/internal/profile"
	"github.com/browser-svc/svc/shared/program"
)

// secretsCommand cares for what is stored encrypted.
func secretsCommand(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "secrets", Summary: "Care for the proxy passwords that are stored encrypted",
		Commands: []program.Command[Config]{{
			Name: "rotate", Summary: "Encrypt every proxy password with the first of SECRET_KEYS",
			Detail: "To replace a key, in steps that each end with a restart of every replica: put the new key second in\n" +
				"SECRET_KEYS, so that all can read what it encrypts; then put it first. Run this, and take the old one out a\n" +
				"day later, when answers kept for Idempotency-Key (RETENTION_IDEMPOTENCY) and queued mail have gone, too.",
			Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
				return withDatabase(ctx, config, logger, func(pools pools) error {
					box, err := openSecretBox(config, logger)
					if err != nil {
						return err
					}
					n, err := profile.ReencryptPasswords(ctx, pools.system, box)
					if err != nil {
						return err
					}
					_, err = fmt.Fprintf(out, "Encrypted %d proxy passwords anew\n", n)
					return err
				})
			},
		}},
	}
}
