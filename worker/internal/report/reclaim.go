package report

import (
	"context"
	"log/slog"
	"time"
)

// maxReclaimAttempts bounds how often a worker that starts asks a cloud that does not
// answer.
const maxReclaimAttempts = 8

// StaleCloud knows the sessions that the organization of the worker's own key is
// charged for.
type StaleCloud interface {
	// CountStale is how many sessions of this machine have lapsed.
	CountStale(ctx context.Context) (int, error)
	// Reclaim ends what has lapsed in the organization and returns how much.
	Reclaim(ctx context.Context) (released int, err error)
}

// ReclaimStale gives back, at a worker's start, the slots of sessions of its
// machine that have lapsed: an earlier boot left them (specification 3.2). While
// the cloud does not answer it tries again, a few times; the cloud reclaims what
// has lapsed by itself, later.
func ReclaimStale(ctx context.Context, cloud StaleCloud, logger *slog.Logger) {
	pause := newBackoff()
	for range maxReclaimAttempts {
		err := reclaimStale(ctx, cloud, logger)
		if err == nil || ctx.Err() != nil {
			return
		}
		logger.WarnContext(ctx, "stale sessions of this machine could not be reclaimed", "error", err)
		if isFinal(err) {
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
	logger.InfoContext(ctx, "stale sessions reclaimed", "ofThisMachine", stale, "released", released)
	return nil
}
