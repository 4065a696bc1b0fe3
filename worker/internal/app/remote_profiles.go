package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/profiledata"
)

const (
	// remoteSaveTime is how long saving the data of one profile to PROFILE_STORE_URL may
	// take.
	remoteSaveTime = 3 * time.Minute
	// garbageAge is the minimum age of objects that svc-worker profiles gc deletes. It is
	// much longer than a save.
	garbageAge = 24 * time.Hour
)

// remoteProfiles gives launches the data of profiles in PROFILE_STORE_URL. It implements
// launch.Data and profiledata.Index.
type remoteProfiles struct {
	cloud  *cloud.Client
	store  *profiledata.Remote
	bucket *blob.Bucket
}

// openRemoteProfiles returns nil without PROFILE_STORE_URL.
func (c Config) openRemoteProfiles(ctx context.Context, client *cloud.Client, logger *slog.Logger) (*remoteProfiles, error) {
	if c.ProfileStoreURL == "" {
		return nil, nil
	}
	bucket, err := profiledata.OpenBucket(ctx, c.ProfileStoreURL)
	if err != nil {
		return nil, err
	}
	return &remoteProfiles{cloud: client, bucket: bucket, store: profiledata.OpenRemote(profiledata.RemoteOptions{
		Bucket: bucket, Versions: c.ProfileVersions, MaxBytes: c.ProfileData << 20, SaveTime: remoteSaveTime, Clock: clock.System{}, Logger: logger,
	})}, nil
}

// profileData returns the data of profiles: in PROFILE_STORE_URL or on this machine.
func (w *worker) profileData() launch.Data {
	if w.remote != nil {
		return w.remote
	}
	return profileStore{w.profiles}
}

// close closes the store, if there is one.
func (p *remoteProfiles) close() error {
	if p == nil {
		return nil
	}
	return p.bucket.Close()
}

// Acquire implements launch.Data.
func (p *remoteProfiles) Acquire(ctx context.Context, use launch.DataUse) (launch.SavedData, error) {
	data, err := p.cloud.OpenProfileData(ctx, use)
	if err != nil {
		return nil, err
	}
	of := profiledata.Use{ProfileID: use.ProfileID, Current: data.Current, Key: data.Key}
	if !use.ReadOnly {
		of.Commit = func(ctx context.Context, v profiledata.SavedVersion) error {
			return p.cloud.AddProfileDataVersion(ctx, use, cloud.ProfileDataVersion{
				ID: v.ID, Previous: data.Current, Content: v.Content, Sent: v.Sent, Keep: v.Keep,
			})
		}
	}
	handle, err := p.store.Handle(of)
	if err != nil {
		return nil, err
	}
	return handle, nil
}

// Key implements profiledata.Index.
func (p *remoteProfiles) Key(ctx context.Context, profileID uuid.UUID) ([]byte, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("generate a session id: %w", err)
	}
	data, err := p.cloud.OpenProfileData(ctx, launch.DataUse{ProfileID: profileID, SessionID: id, ReadOnly: true})
	return data.Key, err
}

// Versions implements profiledata.Index.
func (p *remoteProfiles) Versions(ctx context.Context, profileID uuid.UUID) ([]uuid.UUID, error) {
	return p.cloud.ProfileDataVersions(ctx, profileID)
}

func collectProfiles(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "gc", Summary: "Delete unused objects from PROFILE_STORE_URL",
		Detail: "Deletes what no version of a profile's data refers to and what is older than 24 hours: removed versions, deleted\n" +
			"profiles and interrupted saves. Needs SVC_KEY. Data of other organizations in the same store stays. Run it\n" +
			"once a day on one machine.",
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			if config.ProfileStoreURL == "" || config.OrganizationKey == "" {
				return errors.New("set PROFILE_STORE_URL and SVC_KEY")
			}
			traces, err := tracing.Open(ctx, tracing.Config{}, "svc-worker", program.Version, logger)
			if err != nil {
				return err
			}
			client, err := cloud.New(config.CloudURL, config.OrganizationKey, cloud.Machine{ID: "profiles-gc"}, traces, logger)
			if err != nil {
				return err
			}
			profiles, err := config.openRemoteProfiles(ctx, client, logger)
			if err != nil {
				return err
			}
			done, err := profiles.store.CollectGarbage(ctx, profiles, garbageAge)
			_, printed := fmt.Fprintf(out, "Deleted %d objects (%s) of %d profiles\n", done.Objects, program.Bytes(done.Bytes), done.Profiles)
			return errors.Join(err, printed, profiles.close(), traces.Close(ctx))
		},
	}
}
