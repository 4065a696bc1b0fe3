package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/browsers/profiledata"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/platform/idempotency"
	"github.com/browser-svc/svc/cloud/internal/platform/mail"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/cloud/internal/tenancy/vault"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook"
	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/program"
)

// restoreCheckCommand proves that a restored database is consistent.
func restoreCheckCommand(out io.Writer) program.Command[Config] {
	var repair, json bool
	var timeout time.Duration
	return program.Command[Config]{
		Name: "restore-check", Summary: "Check that a restored database is consistent",
		Detail: "Checks the schema version, the license accounting, and that SECRET_KEYS decrypts every stored secret. It exits\n" +
			"with 1 if a check fails. Without --repair it changes nothing. It can run while the cloud is running.",
		Flags: func(flags *flag.FlagSet) {
			flags.BoolVar(&repair, "repair", false, "Correct license counters, as the cloud does every few minutes")
			flags.DurationVar(&timeout, "timeout", 10*time.Minute, "Fail after this `TIME`")
			addJSONFlag(flags, &json)
		},
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not finished after %v: see --timeout", timeout))
			defer cancel()
			checks, err := checkRestore(ctx, config, logger, timeout, repair)
			if err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return err
			}
			return checks.print(out, json)
		},
	}
}

// check is the result of one check, as the command prints it.
type check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Checked int    `json:"checked"` // rows
	Failed  int    `json:"failed"`  // rows
	Detail  string `json:"detail"`
}

type checks []check

func (c checks) print(out io.Writer, json bool) error {
	failed, rows := 0, [][]any{}
	for _, each := range c {
		result := "ok"
		if !each.OK {
			result = "FAILED"
			failed++
		}
		rows = append(rows, []any{each.Name, result, each.Checked, each.Failed, each.Detail})
	}
	var err error
	if json {
		err = printJSON(out, c)
	} else {
		err = printTable(out, "CHECK\tRESULT\tCHECKED\tFAILED\tDETAIL", rows)
	}
	if err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(c))
	}
	return nil
}

// checkRestore runs all checks. If the schema is not that of this program, it runs only
// the check of the schema.
func checkRestore(ctx context.Context, config Config, logger *slog.Logger, timeout time.Duration, repair bool) (checks, error) {
	database, err := openOrJoinDatabase(ctx, config, logger)
	if err != nil {
		return nil, err
	}
	defer database.close()
	schema, err := db.ReadSchema(ctx, database.owner.DB)
	if err != nil {
		return nil, err
	}
	first := check{Name: "schema version", OK: true, Detail: fmt.Sprintf("version %d, this program has version %d", schema.Version, schema.Program)}
	if err := schema.Check(); err != nil {
		first.OK, first.Detail = false, err.Error()
		return checks{first}, nil
	}
	system, err := pg.Open(ctx, database.dsn, pg.Options{
		ApplicationName: "svc-cloud restore-check", MaxOpen: 4, Role: pg.AllRole, Statement: timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("%w (a dump of a database does not contain the roles svc_app and svc_all)", err)
	}
	defer system.Close()
	result := checks{first}
	for _, run := range []func() (check, error){
		func() (check, error) { return checkCounters(ctx, system, logger, repair) },
		func() (check, error) {
			return countRows(ctx, system, "organizations have a counter", license.UncountedOrganizations)
		},
		func() (check, error) {
			return countRows(ctx, system, "slots have an organization", license.OrphanSlots)
		},
		func() (check, error) {
			return countRows(ctx, system, "ephemeral profiles have a session", profile.OrphanedEphemeral)
		},
	} {
		each, err := run()
		if err != nil {
			return nil, err
		}
		result = append(result, each)
	}
	secrets, err := checkSecrets(ctx, config, system, logger)
	return append(result, secrets...), err
}

// checkCounters compares the license counters with the slots. With repair, it corrects
// them first.
func checkCounters(ctx context.Context, system *sqlx.DB, logger *slog.Logger, repair bool) (check, error) {
	c := check{Name: "license counters equal the slots"}
	if repair {
		licenses, err := license.New(ctx, system, nil, logger, license.Options{})
		if err != nil {
			return c, err
		}
		repaired, err := licenses.Audit(ctx)
		if err := errors.Join(err, licenses.Close()); err != nil {
			return c, err
		}
		c.Detail = fmt.Sprintf("%d repaired", repaired)
	}
	drifted, err := license.DriftedCounters(ctx, system)
	if err != nil {
		return c, err
	}
	if err := system.GetContext(ctx, &c.Checked, `SELECT count(*) FROM license_org`); err != nil {
		return c, fmt.Errorf("count the license counters: %w", err)
	}
	if c.Failed = len(drifted); c.Failed > 0 {
		d := drifted[0]
		c.Detail = fmt.Sprintf("organization %s counts %d, but has %d live slots; --repair corrects it", d.OrganizationID, d.Counted, d.Live)
	}
	c.OK = c.Failed == 0
	return c, nil
}

func countRows(ctx context.Context, system *sqlx.DB, name string,
	count func(context.Context, *sqlx.DB) (total, failed int, err error),
) (check, error) {
	total, failed, err := count(ctx, system)
	return check{Name: name, OK: failed == 0, Checked: total, Failed: failed}, err
}

// checkSecrets decrypts all stored secrets.
func checkSecrets(ctx context.Context, config Config, system *sqlx.DB, logger *slog.Logger) (checks, error) {
	box, missing, err := existingSecretBox(config, logger)
	if err != nil {
		return nil, err
	}
	var result checks
	for _, kind := range []struct {
		name  string
		check func() (int, []error, error)
	}{
		{"proxy passwords can be decrypted", func() (int, []error, error) { return profile.CheckPasswords(ctx, system, box) }},
		{"client certificates can be decrypted", func() (int, []error, error) { return profile.CheckCertificates(ctx, system, box) }},
		{"profile data keys can be decrypted", func() (int, []error, error) { return profiledata.CheckKeys(ctx, system, box) }},
		{"passwords and TOTP seeds of secrets can be decrypted", func() (int, []error, error) { return vault.Check(ctx, system, box) }},
		{"webhook secrets can be decrypted", func() (int, []error, error) { return webhook.Check(ctx, system, box) }},
		{"queued mail can be decrypted", func() (int, []error, error) { return mail.CheckQueued(ctx, system, box) }},
		{"stored answers can be decrypted", func() (int, []error, error) { return idempotency.CheckAnswers(ctx, system, box) }},
	} {
		total, unreadable, err := kind.check()
		if err != nil {
			return nil, err
		}
		c := check{Name: kind.name, OK: len(unreadable) == 0, Checked: total, Failed: len(unreadable)}
		switch {
		case c.OK:
		case missing != "":
			c.Detail = missing
		default:
			c.Detail = unreadable[0].Error()
		}
		result = append(result, c)
	}
	return result, nil
}

// existingSecretBox is openSecretBox, but does not create a key. If there is none, the
// box decrypts nothing, and missing says so.
func existingSecretBox(config Config, logger *slog.Logger) (box *secret.Box, missing string, err error) {
	if config.SecretKeys == "" {
		if _, err := os.Stat(secretPath(config)); errors.Is(err, fs.ErrNotExist) {
			box, err := secret.New(secret.Key{Bytes: make([]byte, secret.KeySize)})
			return box, fmt.Sprintf("SECRET_KEYS is not set, and %s does not exist: restore the key that belongs to this backup", secretPath(config)), err
		}
	}
	box, err = openSecretBox(config, logger)
	return box, "", err
}
