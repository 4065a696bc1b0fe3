package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// saveTime is how long saving the data of one profile may take.
const saveTime = time.Minute

// openProfiles opens the store of saved profile data.
func (c Config) openProfiles(logger *slog.Logger) (*profiledata.Local, error) {
	dataDir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("DATA_DIR: %w", err)
	}
	return profiledata.OpenLocal(profiledata.LocalOptions{
		Dir: filepath.Join(dataDir, "profiles"), Versions: profileVersions, MaxBytes: c.maxProfileData(),
		SaveTime: saveTime, Clock: clock.System{}, Logger: logger,
	})
}

// profileStore gives launches the data of profiles that is saved on this machine.
type profileStore struct{ store *profiledata.Local }

// Acquire implements launch.Data.
func (k profileStore) Acquire(_ context.Context, use launch.DataUse) (launch.SavedData, error) {
	if use.ReadOnly {
		return k.store.Reader(use.ProfileID), nil
	}
	claim, err := k.store.Acquire(use.ProfileID)
	if err != nil {
		return nil, err
	}
	return claim, nil
}

// profilesCommand manages the saved profile data on this machine.
func profilesCommand(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "profiles", Summary: "Manage the saved browser data of profiles",
		Commands: []program.Command[Config]{listProfiles(out), listVersions(out), rollbackProfile(out), removeProfile(out), collectProfiles(out)},
	}
}

func listProfiles(out io.Writer) program.Command[Config] {
	var local bool
	return program.Command[Config]{
		Name: "list", Summary: "List the profiles with saved data on this machine",
		Detail: "CONTENT is the size of the current version, ON DISK the size of all versions,\n" +
			"which share what did not change.",
		Flags: localFlag(&local),
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			if err := config.requireLocal(local, "GET /v1/profiles/{profileId}/data/versions of the cloud"); err != nil {
				return err
			}
			store, err := config.openProfiles(logger)
			if err != nil {
				return err
			}
			found, err := store.Profiles(ctx)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "PROFILE\tVERSIONS\tCURRENT\tSAVED\tCONTENT\tON DISK")
			for _, p := range found {
				current, saved, content := "-", "-", "-"
				if len(p.Versions) > 0 {
					newest := p.Versions[0]
					current, saved, content = fmt.Sprint(newest.Number), savedAt(newest), contentSize(newest)
				}
				_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", p.ID, len(p.Versions), current, saved, content, program.Bytes(p.Size))
			}
			return w.Flush()
		},
	}
}

func listVersions(out io.Writer) program.Command[Config] {
	var id string
	var local bool
	return program.Command[Config]{
		Name: "versions", Summary: "List the versions of a profile's data, newest first",
		Detail: "Reads each version completely: STATE shows whether it is intact, ON DISK what it added. A version is saved whenever\n" +
			"a browser of the profile exits cleanly. The newest three versions are kept. With OBJECT_STORE_URL it lists the versions\n" +
			"that the cloud has, and needs SVC_KEY.",
		Args:  []program.Arg{{Name: "ID", Doc: "The profile's id", Value: &id}},
		Flags: localFlag(&local),
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			store, profileID, err := config.profile(id, logger)
			if err != nil {
				return err
			}
			if config.ObjectStoreURL != "" && !local {
				return config.listRemoteVersions(ctx, profileID, out, logger)
			}
			found, err := store.Versions(ctx, profileID)
			if err != nil {
				return profileError(profileID, err)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "VERSION\tSAVED\tCONTENT\tENTRIES\tON DISK\tID\tSTATE")
			for _, v := range found {
				state := "good"
				if err := store.Verify(ctx, profileID, v); err != nil {
					state = err.Error()
				}
				_, _ = fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\n", v.Number, savedAt(v), contentSize(v), v.Entries, program.Bytes(v.Size),
					v.ID, state)
			}
			return w.Flush()
		},
	}
}

func rollbackProfile(out io.Writer) program.Command[Config] {
	var id string
	var version int
	var local bool
	return program.Command[Config]{
		Name: "rollback", Summary: "Make an older version of a profile's data the current one",
		Detail: "The next launch of the profile starts with this version. It gets the next number. Newer versions are kept until\n" +
			"later ones replace them, so a second rollback undoes the first. Fails while a launch uses the data.",
		Args: []program.Arg{{Name: "ID", Doc: "The profile's id", Value: &id}},
		Flags: func(f *flag.FlagSet) {
			localFlag(&local)(f)
			f.IntVar(&version, "to", 0, "The `VERSION` to roll back to (default: the one before the current)")
		},
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			if err := config.requireLocal(local, "POST /v1/profiles/{profileId}/data/versions/{versionId}/restore of the cloud"); err != nil {
				return err
			}
			if version < 0 {
				return errors.New("--to must be a version number")
			}
			store, profileID, err := config.profile(id, logger)
			if err != nil {
				return err
			}
			source, now, err := store.Rollback(ctx, profileID, version)
			if err != nil {
				return profileError(profileID, err)
			}
			_, err = fmt.Fprintf(out, "Version %d of %s, saved %s, is now the current version, number %d\n", source.Number, profileID, savedAt(source), now.Number)
			return err
		},
	}
}

func removeProfile(out io.Writer) program.Command[Config] {
	var id string
	var local bool
	return program.Command[Config]{
		Name: "remove", Summary: "Remove all saved data of a profile on this machine",
		Detail: "The profile itself stays in the cloud. Its next launch on this machine starts without data. The data of profiles\n" +
			"that were deleted in the cloud stays here until it is removed with this command. Fails while a launch uses the data.",
		Args:  []program.Arg{{Name: "ID", Doc: "The profile's id", Value: &id}},
		Flags: localFlag(&local),
		Run: func(_ context.Context, config Config, logger *slog.Logger) error {
			if err := config.requireLocal(local, "DELETE /v1/profiles/{profileId}/data/versions/{versionId} of the cloud"); err != nil {
				return err
			}
			store, profileID, err := config.profile(id, logger)
			if err != nil {
				return err
			}
			if err := store.Remove(profileID); err != nil {
				return profileError(profileID, err)
			}
			_, err = fmt.Fprintf(out, "Removed the data of %s\n", profileID)
			return err
		},
	}
}

func (c Config) profile(id string, logger *slog.Logger) (*profiledata.Local, uuid.UUID, error) {
	profileID, err := uuid.Parse(id)
	if err != nil {
		return nil, profileID, fmt.Errorf("%q is not a profile id", id)
	}
	store, err := c.openProfiles(logger)
	return store, profileID, err
}

// profileError adds what the operator can do.
func profileError(id uuid.UUID, err error) error {
	switch {
	case errors.Is(err, profiledata.ErrInUse):
		return fmt.Errorf("the data of %s is in use: end the browser that uses it first", id)
	case errors.Is(err, profiledata.ErrNotFound):
		return fmt.Errorf("%s has no data on this machine", id)
	}
	return err
}

func savedAt(v profiledata.Version) string {
	if v.Err != nil {
		return "-"
	}
	return v.SavedAt.UTC().Format(time.RFC3339)
}

func contentSize(v profiledata.Version) string {
	if v.Err != nil {
		return "-"
	}
	return program.Bytes(v.Content)
}
