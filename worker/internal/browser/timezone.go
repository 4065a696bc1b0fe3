package browser

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// zoneTime bounds how long the pages of a browser may take to note that it has
// moved to another time zone.
const zoneTime = 5 * time.Second

// CanMoveTimezone reports whether a running browser can be given another time
// zone: in a room with files of its own it has an /etc/localtime of its own.
func (l *Launcher) CanMoveTimezone() bool { return l.private() && sandbox.HasZone("Etc/UTC") }

// moveTimezone changes the time zone of a running browser, and returns when its
// pages see it. A zone that this host does not know is an error.
func (b *Browser) moveTimezone(ctx context.Context, zone string) error {
	if b.room == nil || !sandbox.HasZone(zone) {
		return fmt.Errorf("it cannot move to the time zone %q", zone)
	}
	ctx, cancel := context.WithTimeout(ctx, zoneTime)
	defer cancel()
	clocks, err := b.clocks(ctx)
	defer func() {
		for _, c := range clocks {
			_ = b.conn.Call(ctx, "", "Target.detachFromTarget", object{"sessionId": c.session}, nil)
		}
	}()
	if err != nil {
		return fmt.Errorf("time zone: %w", err)
	}
	if err := b.room.SetZone(zone); err != nil {
		return err
	}
	for _, c := range clocks {
		if err := c.await(ctx, zone, b.room.SetZone); err != nil {
			return fmt.Errorf("time zone: %w", err)
		}
	}
	return nil
}

// windClock moves a browser to another time zone and back. Only the first move
// takes long: Chromium looks at its zone when it has nothing better to do.
func (b *Browser) windClock(ctx context.Context) error {
	if !b.l.private() {
		return nil
	}
	home, err := b.room.Zone()
	if err != nil {
		return nil //nolint:nilerr // the host's zone has no name
	}
	away := detours[slices.IndexFunc(detours, func(name string) bool { return !sandbox.SameZone(name, home) })]
	if err := b.moveTimezone(ctx, away); err != nil {
		b.l.log.Debug("browser slow to see its time zone", "launchId", b.LaunchID, "error", err)
		return b.room.SetZone(home)
	}
	return b.moveTimezone(ctx, home)
}

// clock is a page, asked for its time zone.
type clock struct {
	conn    *cdp.Conn
	session string
	before  string // the zone that it was in
}

// clocks attaches to all pages. After an error it returns those so far.
func (b *Browser) clocks(ctx context.Context) (clocks []clock, err error) {
	pages, err := b.pages(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range pages {
		var in struct{ SessionID string }
		if err := b.conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": id, "flatten": true}, &in); err != nil {
			return clocks, err
		}
		c := clock{conn: b.conn, session: in.SessionID}
		if c.before, err = c.zone(ctx); err != nil {
			return append(clocks, c), err
		}
		clocks = append(clocks, c)
	}
	return clocks, nil
}

func (c clock) zone(ctx context.Context) (string, error) {
	var answer struct{ Result struct{ Value string } }
	question := object{"expression": "Intl.DateTimeFormat().resolvedOptions().timeZone", "returnByValue": true}
	err := c.conn.Call(ctx, c.session, "Runtime.evaluate", question, &answer)
	return answer.Result.Value, err
}

// detours are time zones that go by one name.
var detours = []string{"Asia/Tokyo", "America/Phoenix", "Africa/Nairobi"}

// await waits until the page is in a zone, whichever of its names it calls it by.
// A browser that has not looked at its zone before takes the new one for what it
// always had, and does not tell its pages; it is led there by way of another.
func (c clock) await(ctx context.Context, zone string, set func(string) error) error {
	around := slices.IndexFunc(detours, func(name string) bool { return name != c.before && !sandbox.SameZone(name, zone) })
	last, again := zone, time.NewTicker(150*time.Millisecond)
	defer again.Stop()
	for {
		now, err := c.zone(ctx)
		if err != nil || last == zone && now != c.before && now != detours[around] || sandbox.SameZone(now, zone) {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-again.C:
			if last == zone {
				last = detours[around]
			} else {
				last = zone
			}
			if err := set(last); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
