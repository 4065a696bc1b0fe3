package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/browsers/profiledata"
	"github.com/browser-svc/svc/cloud/internal/tenancy/vault"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook"
	"github.com/browser-svc/svc/shared/program"
)

// secretsCommand manages encrypted data.
func secretsCommand(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "secrets", Summary: "Manage encryption keys",
		Commands: []program.Command[Config]{{
			Name: "rotate", Summary: "Re-encrypt all secrets, webhook secrets, proxy passwords, client certificates and profile data keys with the first of SECRET_KEYS",
			Detail: "To replace a key: 1. Add the new key as second of SECRET_KEYS and restart all replicas, so that every replica can\n" +
				"decrypt with it. 2. Move the new key to the first place and restart all replicas. 3. Run this command. 4. Remove\n" +
				"the old key when 24 hours have passed and the mail queued before step 2 has been sent or\n" +
				"given up, and restart all replicas: saved idempotency answers and queued mail are not re-encrypted.",
			Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
				return withDatabase(ctx, config, logger, func(pools pools) error {
					box, err := openSecretBox(config, logger)
					if err != nil {
						return err
					}
					n, err := profile.ReencryptSecrets(ctx, pools.system, box)
					if err != nil {
						return err
					}
					keys, err := profiledata.ReencryptKeys(ctx, pools.system, box)
					if err != nil {
						return err
					}
					secrets, err := vault.Reencrypt(ctx, pools.system, box)
					if err != nil {
						return err
					}
					endpoints, err := webhook.Reencrypt(ctx, pools.system, box)
					if err != nil {
						return err
					}
					_, err = fmt.Fprintf(out, "Re-encrypted %d secrets, the secrets of %d profiles and %d webhook endpoints, and %d profile data keys\n",
						secrets, n, endpoints, keys)
					return err
				})
			},
		}},
	}
}
