package report

import (
	"context"
	"log/slog"
	"time"
)

// maxReclaimAttempts bounds the attempts at startup while the cloud does not
// answer.
const maxReclaimAttempts = 8

// StaleCloud lists and reclaims the stale sessions of the organization of the
// worker's own key.
type StaleCloud interface {
	// CountStale returns the number of stale sessions of this machine.
	CountStale(ctx context.Context) (int, error)
	// Reclaim ends the stale sessions of the organization and returns their number.
	Reclaim(ctx context.Context) (released int, err error)
}

// ReclaimStale releases, at startup, the slots of stale sessions that an
// earlier boot of this machine left (specification 3.2). It retries a few times
// if the cloud does not answer. The cloud reclaims stale sessions itself later.
func ReclaimStale(ctx context.Context, cloud StaleCloud, logger *slog.Logger) {
	pause := newBackoff()
	for attempt := range maxReclaimAttempts {
		err := reclaimStale(ctx, cloud, logger)
		if err == nil || ctx.Err() != nil {
			return
		}
		if isFinal(err) || attempt == maxReclaimAttempts-1 { // heartbeats log that the cloud does not answer
			logger.WarnContext(ctx, "failed to reclaim stale sessions of this machine", "error", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
	}
}

func reclaimStale(ctx context.Context, cloud StaleCloud, logger *slog.Logger) error {
	stale, err := cloud.CountStale(ctx)
	if err != nil || stale == 0 {
		return err
	}
	released, err := cloud.Reclaim(ctx)
	if err != nil {
		return err
	}
	logger.InfoContext(ctx, "reclaimed stale sessions", "ofThisMachine", stale, "released", released)
	return nil
}
