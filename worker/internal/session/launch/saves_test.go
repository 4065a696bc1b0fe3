package launch_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// hangingDataStore gives launches data whose saves end only with their context.
type hangingDataStore struct {
	dataStore
	saving chan struct{}
}

func (h hangingDataStore) Acquire(ctx context.Context, use launch.DataUse) (launch.SavedData, error) {
	data, err := h.dataStore.Acquire(ctx, use)
	return hangingData{data, h.saving}, err
}

type hangingData struct {
	launch.SavedData
	saving chan struct{}
}

func (h hangingData) Save(ctx context.Context, _ *os.Root) error {
	close(h.saving)
	<-ctx.Done()
	return ctx.Err()
}

func TestCancelSaves_EndsSavesAndLogsProfile(t *testing.T) {
	saving := make(chan struct{})
	log := &testenv.Log{}
	r := newFixture(t, func(o *launch.Options) {
		o.Data = hangingDataStore{newDataStore(t, t.TempDir(), o.Logger), saving}
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	r.cloud.profile.Persist = true
	s := r.launch(t, byProfile())
	if all := r.SavesInProgress(); len(all) > 0 {
		t.Errorf("before the end: %+v", all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-saving; cancel() }()
	if err := r.Shutdown(ctx); err == nil {
		t.Error("Shutdown returned no error while data was being saved")
	}
	if all := r.SavesInProgress(); len(all) != 1 || all[0].ProfileID != s.ProfileID || all[0].SessionID != s.ID || all[0].Since.IsZero() {
		t.Errorf("got saves %+v", all)
	}
	r.CancelSaves()
	if err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, _ := r.Sessions.Get(s.ID)
	if diff := gocmp.Diff(&session.SaveResult{Reason: session.DataTimeout}, ended.SaveResult); diff != "" {
		t.Error(diff)
	}
	if text := log.String(); !strings.Contains(text, "profile data not saved: the worker stopped") || !strings.Contains(text, s.ProfileID.String()) {
		t.Errorf("got log\n%s", text)
	}
	if all := r.SavesInProgress(); len(all) > 0 {
		t.Errorf("after the end: %+v", all)
	}
}
