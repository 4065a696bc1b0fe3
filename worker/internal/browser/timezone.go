package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// timezoneTimeout limits how long a browser's pages may take to notice a new
// time zone. On a busy machine they take seconds.
const timezoneTimeout = 30 * time.Second

// readTimeout limits one reading of the time zone of a page.
const readTimeout = 3 * time.Second

// Limits of timezoneChange.await: how long a page may take to notice a change before await
// makes a detour, and for how long the page must show the new zone after a detour.
const (
	detourAfter       = time.Second
	stableAfterDetour = 100 * time.Millisecond
)

// CanChangeTimezone reports whether the time zone of a running browser can be
// changed. This requires private files, which include /etc/localtime.
func (l *Launcher) CanChangeTimezone() bool {
	return l.hasPrivateFiles() && sandbox.HasTimezone("Etc/UTC")
}

// changeTimezone changes the time zone of a running browser and returns when its
// pages see it. It fails for a zone that this host does not know.
func (b *Browser) changeTimezone(ctx context.Context, zone string) error {
	if b.sandbox == nil || !sandbox.HasTimezone(zone) {
		return fmt.Errorf("the time zone cannot be changed to %q", zone)
	}
	ctx, cancel := context.WithTimeout(ctx, timezoneTimeout)
	defer cancel()
	sessions, err := b.attachToPages(ctx)
	defer b.detach(ctx, sessions)
	if err != nil {
		return fmt.Errorf("time zone: %w", err)
	}
	pages, err := b.timezonePages(ctx, sessions)
	if err != nil {
		return fmt.Errorf("time zone: %w", err)
	}
	if err := b.sandbox.SetTimezone(zone); err != nil {
		return err
	}
	for _, p := range pages {
		change := timezoneChange{read: p.zone, set: b.sandbox.SetTimezone, before: p.before, zone: zone, detourAfter: detourAfter}
		if err := change.await(ctx); err != nil {
			return fmt.Errorf("time zone: %w", err)
		}
	}
	return nil
}

// timezonePage is a page that is asked for its time zone.
type timezonePage struct {
	conn    *cdp.Conn
	session string
	before  string // the zone that it was in
}

// timezonePages asks pages for their zone.
func (b *Browser) timezonePages(ctx context.Context, sessions []string) ([]timezonePage, error) {
	pages := make([]timezonePage, 0, len(sessions))
	for _, session := range sessions {
		p := timezonePage{conn: b.conn, session: session}
		var err error
		if p.before, err = p.zone(ctx); err != nil {
			return nil, err
		}
		pages = append(pages, p)
	}
	return pages, nil
}

// zone reads the zone of the page. It repeats a call that the page does not answer: a page
// that changes its document can lose one.
func (p timezonePage) zone(ctx context.Context) (string, error) {
	question := object{"expression": "Intl.DateTimeFormat().resolvedOptions().timeZone", "returnByValue": true}
	for {
		var answer struct{ Result struct{ Value string } }
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		err := p.conn.Call(limited, p.session, "Runtime.evaluate", question, &answer)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return answer.Result.Value, err
		}
	}
}

// detourZones are time zones with only one name.
var detourZones = []string{"Asia/Tokyo", "America/Phoenix", "Africa/Nairobi"}

// timezoneChange is a change that a page has to notice.
type timezoneChange struct {
	read         func(context.Context) (string, error) // reads the zone of the page
	set          func(zone string) error               // sets the zone of the browser
	before, zone string
	detourAfter  time.Duration
}

// await waits until the page is in a zone, under any of its names. A browser
// that has not read its zone before assumes that the new one is unchanged and
// does not notify its pages; await then switches to another zone and back. The
// page may still receive notifications of such a detour when it already shows the
// new zone, so await returns only when the zone is stable.
func (c timezoneChange) await(ctx context.Context) error {
	detour := detourZones[slices.IndexFunc(detourZones, func(name string) bool { return name != c.before && !sandbox.SameTimezone(name, c.zone) })]
	current, detoured, stableSince := c.zone, false, time.Time{}
	wait := c.detourAfter
	next := time.NewTimer(wait)
	defer next.Stop()
	for {
		now, err := c.read(ctx)
		if err != nil {
			return err
		}
		switch changed := sandbox.SameTimezone(now, c.zone) || now != c.before && now != detour; {
		case current != c.zone || !changed:
			stableSince = time.Time{}
		case !detoured:
			return nil
		case stableSince.IsZero():
			stableSince = time.Now()
		case time.Since(stableSince) >= stableAfterDetour:
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-next.C:
			wait *= 2 // the page may be slower than expected
			next.Reset(wait)
			if !stableSince.IsZero() {
				continue
			}
			detoured = true
			if current == c.zone {
				current = detour
			} else {
				current = c.zone
			}
			if err := c.set(current); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
