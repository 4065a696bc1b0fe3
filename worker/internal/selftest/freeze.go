package selftest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"
)

const freezeTimeout = 20 * time.Second // of a busy machine

// freezeTwice uses a browser after the worker has frozen it, and ends it while it is
// frozen.
func freezeTwice(ctx context.Context, t *scenarioRun) error {
	err := t.launch(ctx)
	for range 2 {
		if err == nil {
			err = t.drive(ctx)
		}
		if err == nil {
			err = t.waitUntilFrozen(ctx)
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(t.kill(ctx), t.waitForEnd(ctx))
}

// waitUntilFrozen waits until the browser is frozen, unless this host cannot freeze
// browsers.
func (t *scenarioRun) waitUntilFrozen(ctx context.Context) error {
	if log, err := os.ReadFile(t.worker.log); err != nil || bytes.Contains(log, []byte("FREEZE_IDLE_SECONDS has no effect")) {
		return err
	}
	began := time.Now()
	for time.Since(began) < freezeTimeout {
		session, err := t.getSession(ctx, t.session.Id)
		if err != nil {
			return err
		}
		if value(session.Frozen) {
			t.log.count(t.label("frozen"))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("the browser was not frozen, although no client uses it")
}
