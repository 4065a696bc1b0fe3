package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// localFlag defines the flag --local.
func localFlag(local *bool) func(*flag.FlagSet) {
	return func(f *flag.FlagSet) {
		f.BoolVar(local, "local", false, "With OBJECT_STORE_URL: the data that is still in DATA_DIR")
	}
}

// requireLocal returns an error if the data of profiles is in OBJECT_STORE_URL, unless
// the local data is meant. The cloud decides which version is the current one, so the
// error names what to use instead.
func (c Config) requireLocal(local bool, instead string) error {
	if c.ObjectStoreURL == "" || local {
		return nil
	}
	return fmt.Errorf("the data of profiles is in OBJECT_STORE_URL, and the cloud has the list of its versions: use the profile's page in the dashboard or %s. For the data that is still in DATA_DIR, add --local", instead)
}

// withRemoteProfiles connects to the cloud and to OBJECT_STORE_URL, and calls use.
func (c Config) withRemoteProfiles(ctx context.Context, logger *slog.Logger, use func(*remoteProfiles) error) error {
	if c.ObjectStoreURL == "" || c.organizationKey() == "" {
		return errors.New("set OBJECT_STORE_URL and SVC_KEY")
	}
	traces, err := tracing.Open(ctx, tracing.Config{}, "svc-worker", program.Version, logger)
	if err != nil {
		return err
	}
	roots, err := c.rootCAs()
	if err != nil {
		return err
	}
	client, err := cloud.New(c.CloudURL, c.organizationKey(), cloud.Machine{ID: "profiles"}, roots, traces, logger)
	if err != nil {
		return err
	}
	profiles, err := c.openRemoteProfiles(ctx, client, nil, logger)
	if err != nil {
		return err
	}
	return errors.Join(use(profiles), profiles.bucket.Close(), traces.Close(ctx))
}

func collectProfiles(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "gc", Summary: "Delete unused objects from OBJECT_STORE_URL",
		Detail: "Deletes what no version of a profile's data refers to and what is older than 24 hours: removed versions, deleted\n" +
			"profiles, deleted organizations and interrupted saves. Needs SVC_KEY. Data of other organizations stays. Workers with\n" +
			"SVC_KEY do the same once a day by themselves.",
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			return config.withRemoteProfiles(ctx, logger, func(profiles *remoteProfiles) error {
				deleted, failed := profiles.store.CollectDeleted(ctx, profiles, profiledata.MinGarbageAge)
				done, err := profiles.store.CollectGarbage(ctx, profiles, profiledata.MinGarbageAge)
				done.Objects, done.Bytes, err = done.Objects+deleted.Objects, done.Bytes+deleted.Bytes, errors.Join(failed, err)
				_, printed := fmt.Fprintf(out, "Deleted %d objects (%s) of %d profiles\n", done.Objects, program.Bytes(done.Bytes), done.Profiles)
				return errors.Join(err, printed)
			})
		},
	}
}

// listRemoteVersions prints the versions of a profile's data that the cloud has.
func (c Config) listRemoteVersions(ctx context.Context, profileID uuid.UUID, out io.Writer, logger *slog.Logger) error {
	return c.withRemoteProfiles(ctx, logger, func(profiles *remoteProfiles) error {
		found, err := profiles.cloud.ProfileDataVersions(ctx, profileID)
		if fault.Is(err, fault.NotFound) {
			return fmt.Errorf("the organization has no profile %s", profileID)
		}
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "VERSION\tSAVED\tCONTENT\tSENT\tMACHINE\tSTATE")
		for _, v := range found {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Id, v.CreatedAt.UTC().Format(time.RFC3339), program.Bytes(v.SizeBytes), program.Bytes(v.SentBytes), v.MachineId, v.State)
		}
		return w.Flush()
	})
}
