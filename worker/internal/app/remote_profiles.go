package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// remoteSaveTime is how long saving the data of one profile to OBJECT_STORE_URL may take.
const remoteSaveTime = 3 * time.Minute

// profilesPrefix separates the data of profiles from the recordings in OBJECT_STORE_URL.
const profilesPrefix = "profiles/"

// remoteProfiles gives launches the data of profiles in OBJECT_STORE_URL. It implements
// launch.Data and profiledata.Index.
type remoteProfiles struct {
	cloud    *cloud.Client
	reports  *report.Reporter // nil outside of a worker: nothing is saved
	sessions *session.Store
	store    *profiledata.Store
	bucket   *blob.Bucket
	local    *profiledata.Local // data from before OBJECT_STORE_URL was set
	logger   *slog.Logger
}

// openProfileData opens the store of saved profile data on this machine, and
// OBJECT_STORE_URL if that is set.
func (w *worker) openProfileData(ctx context.Context) (err error) {
	if w.profiles, err = w.config.openProfiles(w.logger); err != nil || w.config.ObjectStoreURL == "" {
		return err
	}
	if w.remote, err = w.config.openRemoteProfiles(ctx, w.cloud, w.profiles, w.logger); err != nil {
		return err
	}
	w.remote.reports, w.remote.sessions = w.reports, w.sessions
	w.closers.Add(w.remote.bucket.Close)
	return nil
}

// openRemoteProfiles opens OBJECT_STORE_URL. The caller closes the bucket.
func (c Config) openRemoteProfiles(ctx context.Context, client *cloud.Client, local *profiledata.Local, logger *slog.Logger) (*remoteProfiles, error) {
	roots, err := c.rootCAs()
	if err != nil {
		return nil, err
	}
	bucket, err := profiledata.OpenBucket(ctx, c.ObjectStoreURL, roots)
	if err != nil {
		return nil, err
	}
	bucket = blob.PrefixedBucket(bucket, profilesPrefix)
	return &remoteProfiles{cloud: client, bucket: bucket, local: local, logger: logger, store: profiledata.Open(profiledata.Options{
		Bucket: bucket, Versions: profileVersions, MaxBytes: c.maxProfileData(), SaveTime: remoteSaveTime, Clock: clock.System{}, Logger: logger,
	})}, nil
}

// profileData returns the data of profiles: in OBJECT_STORE_URL or on this machine.
func (w *worker) profileData() launch.Data {
	if w.remote != nil {
		return w.remote
	}
	return profileStore{w.profiles}
}

// Acquire implements launch.Data.
func (p *remoteProfiles) Acquire(ctx context.Context, use launch.DataUse) (launch.SavedData, error) {
	data, err := p.cloud.OpenProfileData(ctx, use)
	if err != nil {
		return nil, err
	}
	if use.OrganizationKey.IsZero() {
		p.store.SetKey(data.Key)
	}
	granted := profiledata.Use{ProfileID: use.ProfileID, Current: data.Current, Key: data.Key}
	if granted.Source, err = p.source(use, data.Current != nil); err != nil {
		return nil, err
	}
	if !use.ReadOnly {
		granted.Commit = func(ctx context.Context, v profiledata.SavedVersion) error {
			return p.commit(ctx, use, data.Current, v)
		}
	}
	handle, err := p.store.Handle(granted)
	if err != nil {
		if granted.Source != nil {
			granted.Source.Release()
		}
		return nil, err
	}
	return handle, nil
}

// source returns the data of a profile on this machine if the store has none.
func (p *remoteProfiles) source(use launch.DataUse, stored bool) (profiledata.Source, error) {
	if stored {
		return nil, p.local.MarkStored(use.ProfileID)
	}
	return p.local.Source(use.ProfileID, use.ReadOnly)
}

// commit makes a saved version the current one, now or when the cloud can be reached again.
// Then the session has the final result.
func (p *remoteProfiles) commit(ctx context.Context, use launch.DataUse, previous *uuid.UUID, v profiledata.SavedVersion) error {
	err := p.reports.Commit(ctx, report.Commit{
		ID: v.ID, SessionID: use.SessionID, ProfileID: use.ProfileID, Previous: previous, Content: v.Content, Sent: v.Sent, Keep: v.Keep,
		At: time.Now(), OrganizationKey: use.OrganizationKey,
		Settled: func(err error) { p.settle(use, err) },
	})
	if errors.Is(err, report.ErrPending) {
		return fmt.Errorf("%w: %w", profiledata.ErrPending, err)
	}
	return err
}

// settle records the final result of a save.
func (p *remoteProfiles) settle(use launch.DataUse, err error) {
	p.sessions.SetSaveResult(use.SessionID, launch.SaveResult(err))
	if err != nil {
		return
	}
	if err := p.local.MarkStored(use.ProfileID); err != nil {
		p.logger.Error("failed to mark the profile data of this machine as stored", "profileId", use.ProfileID, "error", err)
	}
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
	found, err := p.cloud.ProfileDataVersions(ctx, profileID)
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for _, v := range found {
		ids = append(ids, v.Id)
	}
	return ids, nil
}

// Deleted implements profiledata.Index.
func (p *remoteProfiles) Deleted(ctx context.Context, directory string) (bool, error) {
	return p.cloud.ProfileDataDeleted(ctx, directory)
}

// startGarbageCollection deletes unused profile data once a day until stop is called.
func (w *worker) startGarbageCollection(ctx context.Context) (stop func()) {
	collected := profiledata.NewMetrics(w.metrics)
	if w.remote == nil || w.config.organizationKey() == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	collector := profiledata.Collector{Store: w.remote.store, Index: w.remote, Metrics: collected, Logger: w.logger}
	go func() {
		defer close(done)
		collector.Run(ctx)
	}()
	return func() { cancel(); <-done }
}
