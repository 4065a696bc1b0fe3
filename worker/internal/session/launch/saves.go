package launch

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// errSaveCanceled means that the worker's shutdown did not wait any longer for a save.
var errSaveCanceled = errors.New("the worker stopped before the data was saved")

// SaveInProgress is a save of a profile's data that has not ended.
type SaveInProgress struct {
	ProfileID uuid.UUID
	SessionID uuid.UUID
	Since     time.Time
}

// saves are the saves in progress.
type saves struct {
	clock   clock.Clock
	context context.Context // of all saves
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	running map[uuid.UUID]SaveInProgress // by session
}

func newSaves(c clock.Clock) *saves {
	s := &saves{clock: c, running: map[uuid.UUID]SaveInProgress{}}
	s.context, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// SavesInProgress returns the saves of profile data that have not ended, the oldest first.
func (s *Service) SavesInProgress() (all []SaveInProgress) {
	s.saves.mu.Lock()
	defer s.saves.mu.Unlock()
	for _, save := range s.saves.running {
		all = append(all, save)
	}
	slices.SortFunc(all, func(a, b SaveInProgress) int { return a.Since.Compare(b.Since) })
	return all
}

// CancelSaves cancels the saves of profile data, including later ones. The last saved
// versions stay. It logs which profiles are not saved.
func (s *Service) CancelSaves() {
	for _, save := range s.SavesInProgress() {
		s.Logger.Error("profile data not saved: the worker stopped before the save was complete; the last saved version stays",
			"profileId", save.ProfileID, "sessionId", save.SessionID, "savingFor", s.Clock.Now().Sub(save.Since))
	}
	s.saves.cancel(errSaveCanceled)
}

// trackedData is the data of a launch whose saves are tracked.
type trackedData struct {
	SavedData
	saves *saves
	use   DataUse
}

// Save implements browser.Data.
func (d trackedData) Save(ctx context.Context, source *os.Root) error {
	if d.use.ReadOnly {
		return d.SavedData.Save(ctx, source)
	}
	defer d.saves.begin(d.use)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.saves.context, func() { cancel(errSaveCanceled) })()
	err := d.SavedData.Save(ctx, source)
	if err != nil && !errors.Is(err, profiledata.ErrPending) && context.Cause(ctx) == errSaveCanceled { //nolint:errorlint // the cause itself
		return errors.Join(errSaveCanceled, err)
	}
	return err
}

// begin records a save until end is called.
func (s *saves) begin(use DataUse) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[use.SessionID] = SaveInProgress{ProfileID: use.ProfileID, SessionID: use.SessionID, Since: s.clock.Now()}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, use.SessionID)
	}
}
