package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// launchSessions launches sessions and loads the page in each, and evaluates a script in it
// unless that is empty. After an error it returns those that were launched.
func (w *worker) launchSessions(ctx context.Context, engine string, count int, script string) (sessions []session, err error) {
	var mu sync.Mutex
	err = concurrently(ctx, densityLaunches, count, func(ctx context.Context, _ int) error {
		var s session
		body := map[string]any{"profileId": w.environment.profile, "browser": map[string]any{
			"headless": true, "engine": engine, "startUrls": []string{w.environment.page}, "timeoutMs": readyTimeout.Milliseconds(),
		}}
		if err := call(ctx, http.MethodPost, w.url+"/sessions/profile", w.key, body, &s); err != nil {
			return err
		}
		mu.Lock()
		sessions = append(sessions, s)
		mu.Unlock()
		if script == "" {
			return nil
		}
		return evaluateIn(ctx, s, script)
	})
	return sessions, err
}

func (w *worker) endSessions(ctx context.Context, sessions []session) error {
	return eachSession(ctx, sessions, w.end)
}

// awaitFrozen waits until a session is frozen.
func (w *worker) awaitFrozen(ctx context.Context, s session) error {
	for end := time.Now().Add(time.Minute); ; {
		var state struct{ Frozen bool }
		if err := call(ctx, http.MethodGet, w.url+"/sessions/"+s.ID, w.key, nil, &state); err != nil || state.Frozen {
			return err
		}
		if time.Now().After(end) {
			return errors.New("the sessions are not frozen: see the log of the worker")
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// evaluateIn connects to a session, evaluates a script in its page and disconnects.
func evaluateIn(ctx context.Context, s session, script string) error {
	c, err := dial(ctx, s.WebSocketDebuggerURL, nil)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.attach(ctx); err != nil {
		return err
	}
	return c.result(ctx, "Runtime.evaluate", map[string]any{"expression": script}, nil)
}

// eachSession runs do for all sessions, some at a time.
func eachSession(ctx context.Context, sessions []session, do func(context.Context, session) error) error {
	return concurrently(ctx, densityLaunches, len(sessions), func(ctx context.Context, i int) error { return do(ctx, sessions[i]) })
}

// concurrently runs do for 0 to count-1, limit at a time, until one fails.
func concurrently(ctx context.Context, limit, count int, do func(ctx context.Context, i int) error) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.SetLimit(limit)
	for i := range count {
		tasks.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return do(ctx, i)
		})
	}
	return tasks.Wait()
}
