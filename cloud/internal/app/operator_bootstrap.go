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

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
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
	var register bool
	return program.Command[Config]{
		Name: "bootstrap", Summary: "Create the first user, an organization and the keys of a first worker",
		Detail: "Writes the organization key to DIR/" + organizationKeyFile + " and a worker key to DIR/" + workerKeyFile + ". Only the user that runs the command\n" +
			"can read the files. The keys are not printed. What exists already stays unchanged: the command creates no user if\n" +
			"there are any, no worker key if the file exists, and no organization key if the file contains a valid one. It\n" +
			"migrates the database, and runs beside a running cloud and beside itself. With --register, both files exist: the command\n" +
			"only reads them, and creates the organization key that DIR/" + organizationKeyFile + " contains.",
		Args: []program.Arg{{Name: "DIR", Doc: "The existing directory for the keys", Value: &dir}},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&email, "email", "you@example.com", "The `ADDRESS` of the user")
			flags.BoolVar(&register, "register", false, "Create the organization key that is in DIR, instead of a random one")
			flags.StringVar(&skip, "skip", "", "Create nothing for this `REASON`, if it is not empty")
		},
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			if skip != "" {
				_, err := fmt.Fprintf(out, "Nothing was created: %s\n", skip)
				return err
			}
			return withOperator(ctx, config, logger, func(o *operator) error {
				if register {
					return o.registerKey(ctx, out, dir, email)
				}
				return o.bootstrap(ctx, out, dir, email)
			})
		},
	}
}

// exclusively runs a bootstrap after concurrent ones, so that only one of them creates a key.
func (o *operator) exclusively(ctx context.Context, bootstrap func() error) error {
	return pg.InTx(ctx, o.pools.tenants, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('bootstrap', 0))`); err != nil {
			return fmt.Errorf("wait for another bootstrap: %w", err)
		}
		return bootstrap()
	})
}

func (o *operator) bootstrap(ctx context.Context, out io.Writer, dir, email string) error {
	return o.exclusively(ctx, func() error {
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
		account, organization, err := o.firstAccount(ctx, email)
		if err != nil {
			return err
		}
		_, key, err := o.keys.Create(ctx, organization.ID, account.ID, firstWorkerKey())
		if err != nil {
			return err
		}
		if err := writePrivate(organizationKey, key); err != nil {
			return err
		}
		return o.printBootstrap(out, account, dir)
	})
}

// registerKey creates the organization key that is in DIR, with the first user and
// organization. It does nothing if the key is valid already.
func (o *operator) registerKey(ctx context.Context, out io.Writer, dir, email string) error {
	file := filepath.Join(dir, organizationKeyFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	secret := strings.TrimSpace(string(text))
	if !apikey.WellFormed(secret) {
		return fmt.Errorf("%s does not contain an organization key, which is svc_ and 20 random bytes in lowercase base32", file)
	}
	return o.exclusively(ctx, func() error {
		if valid, err := o.holdsKey(ctx, file); err != nil {
			return err
		} else if valid {
			_, err := fmt.Fprintf(out, "The key in %s is valid already.\n", file)
			return err
		}
		account, organization, err := o.firstAccount(ctx, email)
		if err != nil {
			return err
		}
		_, err = o.keys.Register(ctx, organization.ID, account.ID, firstWorkerKey(), secret)
		if fault.Is(err, fault.Conflict) {
			return fmt.Errorf("the key in %s was revoked: replace it by a new one", file)
		}
		if err != nil {
			return err
		}
		return o.printBootstrap(out, account, dir)
	})
}

func firstWorkerKey() apikey.NewKey { return apikey.NewKey{Name: "first worker"} }

func (o *operator) printBootstrap(out io.Writer, account auth.Account, dir string) error {
	_, err := fmt.Fprintf(out, "Dashboard:  %s\nSign in as: %s\nPassword:   svc-cloud users reset-password %[2]s prints a link that sets it\nKeys:       %[3]s\n",
		o.users.Accounts.Public, account.Email, dir)
	return err
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

// firstAccount returns the first user and its first organization.
func (o *operator) firstAccount(ctx context.Context, email string) (auth.Account, org.Organization, error) {
	account, err := o.firstUser(ctx, email)
	if err != nil {
		return auth.Account{}, org.Organization{}, err
	}
	organization, err := o.firstOrganization(ctx, account)
	return account, organization, err
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

// firstOrganization returns the first organization that the user owns, or creates one.
func (o *operator) firstOrganization(ctx context.Context, account auth.Account) (org.Organization, error) {
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
		return org.Organization{}, err
	}
	if owned != nil {
		return *owned, nil
	}
	return o.organizations.Create(ctx, account.ID, org.NewOrganization{Name: "First organization"})
}

// writePrivate writes or replaces a file that only its owner can read. After a
// failure the file is unchanged.
func writePrivate(path, text string) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(text + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
