package app

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/apikey"
	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/cloud/internal/org"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/program"
)

// The files of bootstrap, for the variables SVC_KEY_FILE and API_KEY_FILE of a worker.
const (
	organizationKeyFile = "svc-key"
	workerKeyFile       = "api-key"
)

// bootstrapCommand creates what a first worker needs. It prints the result to out.
func bootstrapCommand(out io.Writer) program.Command[Config] {
	var dir, email, skip string
	return program.Command[Config]{
		Name: "bootstrap", Summary: "Create the first user, an organization and the keys of a first worker",
		Detail: "Writes the organization key to DIR/" + organizationKeyFile + " and a worker key to DIR/" + workerKeyFile + ". Only the user that runs the command\n" +
			"can read the files. The keys are not printed. What exists already stays unchanged: the command creates no user if\n" +
			"there are any, no worker key if the file exists, and no organization key if the file contains a valid one. It\n" +
			"migrates the database, and runs beside a running cloud and beside itself.",
		Args: []program.Arg{{Name: "DIR", Doc: "The existing directory for the keys", Value: &dir}},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&email, "email", "you@example.com", "The `ADDRESS` of the user")
			flags.StringVar(&skip, "skip", "", "Create nothing for this `REASON`, if it is not empty")
		},
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			if skip != "" {
				_, err := fmt.Fprintf(out, "Nothing was created: %s\n", skip)
				return err
			}
			return withOperator(ctx, config, logger, func(o *operator) error { return o.bootstrap(ctx, out, dir, email) })
		},
	}
}

func (o *operator) bootstrap(ctx context.Context, out io.Writer, dir, email string) error {
	// Concurrent commands wait for this lock, so that only one of them creates a key.
	return pg.InTx(ctx, o.pools.tenants, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('bootstrap', 0))`); err != nil {
			return fmt.Errorf("wait for another bootstrap: %w", err)
		}
		workerKey := filepath.Join(dir, workerKeyFile)
		if _, err := os.Stat(workerKey); errors.Is(err, fs.ErrNotExist) {
			if err := writePrivate(workerKey, "wrk_"+strings.ToLower(rand.Text())); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		organizationKey := filepath.Join(dir, organizationKeyFile)
		if valid, err := o.holdsKey(ctx, organizationKey); err != nil {
			return err
		} else if valid {
			_, err := fmt.Fprintf(out, "The keys are in %s already.\n", dir)
			return err
		}
		account, err := o.firstUser(ctx, email)
		if err != nil {
			return err
		}
		if err := o.firstKey(ctx, account, organizationKey); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "Dashboard:  %s\nSign in as: %s\nPassword:   svc-cloud users reset-password %[2]s prints a link that sets it\nKeys:       %[3]s\n",
			o.users.Accounts.Public, account.Email, dir)
		return err
	})
}

// holdsKey reports whether the file contains a valid organization key. A file can
// contain the key of a database that no longer exists.
func (o *operator) holdsKey(ctx context.Context, file string) (bool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, _, err = apikey.Find(ctx, o.pools.system, strings.TrimSpace(string(text)))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// firstUser returns the user with the address, or creates it as the first user.
func (o *operator) firstUser(ctx context.Context, email string) (auth.Account, error) {
	account, err := o.users.Find(ctx, email)
	if !fault.Is(err, fault.NotFound) {
		return account, err
	}
	account, err = o.users.CreateFirst(ctx, email)
	switch {
	case fault.Is(err, fault.Conflict):
		return account, fmt.Errorf("there are users, but none with the address %s: use the address of one", email)
	case fault.Is(err, fault.Validation):
		return account, fmt.Errorf("%q is not an e-mail address", email)
	}
	return account, err
}

// firstKey creates a key of the first organization that the user owns, or of a new one,
// and writes it to a file.
func (o *operator) firstKey(ctx context.Context, account auth.Account, file string) error {
	var owned *org.Organization
	err := forEach(func(r page.Request) (page.Page[org.Organization], error) {
		return o.organizations.List(ctx, account.ID, r)
	}, func(found org.Organization) error {
		if owned == nil && found.Role == org.Owner {
			owned = &found
		}
		return nil
	})
	if err != nil {
		return err
	}
	if owned == nil {
		created, err := o.organizations.Create(ctx, account.ID, org.NewOrganization{Name: "First organization"})
		if err != nil {
			return err
		}
		owned = &created
	}
	_, key, err := o.keys.Create(ctx, owned.ID, account.ID, apikey.NewKey{Name: "first worker"})
	if err != nil {
		return err
	}
	return writePrivate(file, key)
}

// writePrivate writes or replaces a file that only its owner can read. After a
// failure the file is unchanged.
func writePrivate(path, text string) error {
	made, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(made.Name())
	_, err = made.WriteString(text + "\n")
	if err := errors.Join(err, made.Sync(), made.Close()); err != nil {
		return err
	}
	return os.Rename(made.Name(), path)
}
