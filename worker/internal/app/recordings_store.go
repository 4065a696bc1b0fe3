package app

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/bucket"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/recording"
	"github.com/browser-svc/svc/worker/internal/session"
)

// recordingStore is the store of ended recordings; nil without RECORDINGS_URL.
type recordingStore struct {
	*recording.Store
	bucket *blob.Bucket
}

// openRecordings creates the service of recordings and its store.
func (w *worker) openRecordings(ctx context.Context) error {
	counted := recording.NewMetrics(w.metrics)
	o := recording.Options{Dir: w.files.Recording, Log: w.logger, Metrics: counted, StartProcess: startEncoder(w.launcher.StartEncoder)}
	if w.config.RecordingsURL != "" {
		opened, err := bucket.Open(ctx, "RECORDINGS_URL", w.config.RecordingsURL, 0o700, w.roots)
		if err != nil {
			return err
		}
		own, err := w.recordingOwner(session.OrganizationKey{})
		if err != nil {
			return err
		}
		if o.Store, err = recording.OpenStore(recording.StoreOptions{
			Bucket: opened, Journal: filepath.Join(w.dir, "recordings"), Retention: w.config.RecordingsTime, Own: own,
			Remove: w.files.RemoveRecording, Clock: clock.System{}, Log: w.logger, Metrics: counted,
		}); err != nil {
			return err
		}
		w.recordingStore = &recordingStore{o.Store, opened}
	}
	w.recordings = recording.New(o)
	return nil
}

// recordingOwner returns where the recordings of a launch are stored, and what all workers
// have in common that may serve them: the organization key and the worker key. The key of a
// launch is zero for the worker's own one; without both, no other worker serves them.
func (w *worker) recordingOwner(key session.OrganizationKey) (recording.Owner, error) {
	organization := cmp.Or(key.Reveal(), w.config.OrganizationKey)
	if organization == "" {
		return recording.Owner{}, nil
	}
	derive := func(salt, purpose string) (string, error) {
		derived, err := hkdf.Key(sha256.New, []byte(organization), []byte(salt), "svc recordings: "+purpose, 16)
		if err != nil {
			return "", fmt.Errorf("derive the directory of recordings: %w", err)
		}
		return hex.EncodeToString(derived), nil
	}
	directory, err := derive("", "directory")
	if err != nil {
		return recording.Owner{}, err
	}
	access, err := derive(cmp.Or(w.config.WorkerKey, w.config.OrganizationKey), "access")
	return recording.Owner{Directory: directory, Access: access}, err
}

// start deletes expired recordings until stop is called.
func (r *recordingStore) start(ctx context.Context) (stop func()) {
	if r == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// endRecordings ends all recordings and waits for their uploads until ctx ends.
func (w *worker) endRecordings(ctx context.Context) {
	if w.recordings != nil {
		w.recordings.Close()
	}
	if w.recordingStore != nil {
		w.recordingStore.Close(ctx)
	}
}

// close closes the store, if there is one. Its uploads must have ended.
func (r *recordingStore) close() error {
	if r == nil {
		return nil
	}
	return r.bucket.Close()
}
