package app

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/browser-svc/svc/shared/bucket"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/session"
)

// openRecordings creates the service of recordings and its store.
func (w *worker) openRecordings(ctx context.Context) error {
	counted := recording.NewMetrics(w.metrics)
	o := recording.Options{Dir: w.files.Recording, Log: w.logger, Metrics: counted, StartProcess: startEncoder(w.launcher.StartEncoder)}
	if w.config.ObjectStoreURL != "" {
		opened, err := bucket.Open(ctx, "OBJECT_STORE_URL", w.config.ObjectStoreURL, 0o700, w.roots)
		if err != nil {
			return err
		}
		w.closers.Add(opened.Close)
		own, err := w.recordingOwner(session.OrganizationKey{})
		if err != nil {
			return err
		}
		if o.Store, err = recording.OpenStore(recording.StoreOptions{
			Bucket: opened, Journal: filepath.Join(w.dir, "recordings"), Retention: w.config.FilesRetention, Own: own,
			Remove: w.files.RemoveRecording, Clock: clock.System{}, Log: w.logger, Metrics: counted,
		}); err != nil {
			return err
		}
		w.recordingStore = o.Store
	}
	w.recordings = recording.New(o)
	w.closers.AddFunc(func() {
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		w.endRecordings(canceled)
	})
	return nil
}

// recordingOwner returns where the recordings of a launch are stored, and what all workers
// have in common that may serve them: the organization key and the worker key. The key of a
// launch is zero for the worker's own one; without both, no other worker serves them.
func (w *worker) recordingOwner(key session.OrganizationKey) (recording.Owner, error) {
	organization := cmp.Or(key.Reveal(), w.config.organizationKey())
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
	access, err := derive(cmp.Or(w.config.WorkerKey, w.config.organizationKey()), "access")
	return recording.Owner{Directory: directory, Access: access}, err
}

// startRecordingStore deletes expired recordings until stop is called.
func (w *worker) startRecordingStore(ctx context.Context) (stop func()) {
	if w.recordingStore == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.recordingStore.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// endRecordings ends all recordings and waits for their uploads until ctx ends.
func (w *worker) endRecordings(ctx context.Context) {
	w.recordings.Close()
	if w.recordingStore != nil {
		w.recordingStore.Close(ctx)
	}
}
