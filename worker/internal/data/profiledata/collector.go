package profiledata

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// MinGarbageAge is the minimum age of objects that garbage collections delete. It is much
// longer than a save.
const MinGarbageAge = 24 * time.Hour

const (
	collectionInterval = 24 * time.Hour // of an organization
	checkInterval      = time.Hour      // of a worker, on average
)

// Collector collects the garbage of the worker's own organization once a day. All workers
// of the organization run one. The time of the last collection is in the store, so that
// usually only one of them collects.
type Collector struct {
	Store   *Store
	Index   Index
	Metrics *Metrics
	Logger  *slog.Logger

	deletedAt time.Time // when the data of deleted organizations was last looked for
}

// Run checks about once an hour, at random times, whether a collection is due, until ctx
// ends.
func (c *Collector) Run(ctx context.Context) {
	for wait := rand.N(checkInterval); ; wait = checkInterval/2 + rand.N(checkInterval) {
		select {
		case <-time.After(wait):
			c.collectIfDue(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// collectDeletedIfDue deletes the data of deleted organizations once a day. Their own
// workers cannot: the cloud refuses their keys.
func (c *Collector) collectDeletedIfDue(ctx context.Context) {
	now := c.Store.opts.Clock.Now()
	if now.Sub(c.deletedAt) < collectionInterval {
		return
	}
	done, err := c.Store.CollectDeleted(ctx, c.Index, MinGarbageAge)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		c.Logger.WarnContext(ctx, "failed to look for profile data of deleted organizations; it is tried again", "objects", done.Objects, "bytes", done.Bytes, "error", err)
	default:
		c.deletedAt = now
	}
	c.Metrics.bytes.Add(float64(done.Bytes))
	if done.Objects > 0 {
		c.Logger.InfoContext(ctx, "profile data of deleted organizations deleted", "objects", done.Objects, "bytes", done.Bytes)
	}
}

// collectIfDue collects garbage if the last collection is a day old.
func (c *Collector) collectIfDue(ctx context.Context) {
	c.collectDeletedIfDue(ctx)
	began := time.Now()
	due, err := c.due(ctx)
	if err == nil && !due {
		return
	}
	var done Garbage
	if err == nil {
		done, err = c.Store.CollectGarbage(ctx, c.Index, MinGarbageAge)
	}
	if ctx.Err() != nil { // the worker stops; another one continues tomorrow
		return
	}
	c.Metrics.countCollection(done, err)
	if err != nil {
		c.Logger.WarnContext(ctx, "failed to delete unused profile data; it is tried again within a day", "objects", done.Objects, "bytes", done.Bytes, "error", err)
		return
	}
	c.Logger.InfoContext(ctx, "unused profile data deleted", "profiles", done.Profiles, "objects", done.Objects, "bytes", done.Bytes, "took", time.Since(began))
}

// due reports whether the store has data of the organization that was not collected for a
// day.
func (c *Collector) due(ctx context.Context) (bool, error) {
	own, err := c.Store.ownBox(ctx, c.Index)
	if err != nil || own == nil {
		return false, err
	}
	found, err := c.Store.profiles(ctx, own.directory)
	if err != nil || len(found) == 0 {
		return false, err
	}
	last, err := c.Store.collectedAt(ctx, own)
	return c.Store.opts.Clock.Now().Sub(last) >= collectionInterval, err
}
