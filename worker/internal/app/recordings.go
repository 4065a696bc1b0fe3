package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/api/pagelog"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/files"
	"github.com/browser-svc/svc/worker/internal/media/interaction"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/media/rfb"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// cannotRecord returns why this worker cannot record something; "" if it can.
func cannotRecord(parts launch.Record) (problem string) {
	if !parts.Video {
		return ""
	}
	if _, err := recording.FindFFmpeg(); err != nil {
		return err.Error() + ". Install ffmpeg, or record only events, frames and traces"
	}
	return ""
}

// recordingURLs returns the URLs of the player and the trace viewer of a session.
func (w *worker) recordingURLs(session uuid.UUID) (player, viewer string) {
	recordings := access.Recordings{Address: w.address}
	return recordings.Player(session.String()), recordings.Viewer(session.String())
}

func checkSpace(l *files.Launch) recording.Reason {
	switch err := l.CheckSpace(); {
	case errors.Is(err, files.ErrQuota):
		return recording.QuotaExceeded
	case errors.Is(err, files.ErrDiskFull):
		return recording.DiskFull
	}
	return ""
}

// pictures shows what a browser shows: its display, or a screencast of its active page.
func pictures(ctx context.Context, b access.Browser, show func(recording.Picture)) error {
	defer b.KeepAwake()() // a frozen browser shows nothing new
	var up *rfb.Upstream
	var err error
	if b.Display != nil {
		up, err = openPicture(ctx, b, rfb.Watch)
	} else {
		up, err = rfb.SmallScreencast(ctx, rfb.DevTools{Port: b.DebugPort, Dial: b.Dial}, recording.MaxWidth)
	}
	if err != nil {
		return err
	}
	return rfb.Capture(ctx, up, b.Display == nil, recording.PictureInterval, func(f rfb.Frame) { show(recording.Picture(f)) })
}

// events adds the messages of pages, what happens to tabs, and what users do.
func (w *worker) events(ctx context.Context, b access.Browser, add func(recording.Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	others := make(chan error, 2)
	for _, watch := range []func(context.Context, access.Browser, func(recording.Event)) error{watchTabs, w.watchActions} {
		go func() {
			defer cancel()
			others <- watch(ctx, b, add)
		}()
	}
	messages := watchMessages(ctx, w.logs, b, add)
	cancel()
	return errors.Join(messages, <-others, <-others)
}

// watchActions adds clicks and changes of fields.
func (w *worker) watchActions(ctx context.Context, b access.Browser, add func(recording.Event)) error {
	return w.followActions(ctx, b, interaction.Follower{Begin: func(interaction.Kind) func(interaction.Action) {
		return func(a interaction.Action) { add(eventOf(a)) }
	}})
}

// followActions follows what users do, over one connection for the recording and the
// activity log. A browser can be frozen meanwhile.
func (w *worker) followActions(ctx context.Context, b access.Browser, f interaction.Follower) error {
	return w.watchers.Follow(ctx, b.LaunchID, func(ctx context.Context) (*cdp.Conn, error) { return b.ObserveCDP(ctx, maxTreeMessage) }, f)
}

func eventOf(a interaction.Action) recording.Event {
	return recording.Event{At: a.At, Kind: recording.Kind(a.Kind), TargetID: a.TargetID, Role: a.Role, Name: a.Name}
}

func watchMessages(ctx context.Context, logs *pagelog.Service, b access.Browser, add func(recording.Event)) error {
	log, err := logs.Open(ctx, b)
	if err != nil {
		return err
	}
	for after := int64(0); ; {
		p := log.After(after, pagelog.MaxEntries)
		after = p.LastSeq
		for _, e := range p.Entries {
			add(recording.Event{
				At: e.At, Kind: recording.Kind(e.Kind), TargetID: e.TargetID, Level: string(e.Level), Text: e.Text, URL: e.URL, Line: e.Line, Column: e.Column,
			})
		}
		if len(p.Entries) > 0 {
			continue
		}
		if p.Ended {
			return errors.New("the log has ended")
		}
		select {
		case <-p.Changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

const (
	tabEvents     = 1024    // unread events of tabs
	maxTabMessage = 4 << 20 // bytes

	maxTreeMessage = 16 << 20 // bytes of a part of an accessibility tree
)

// watchTabs adds tabs and their navigations. It attaches to no page.
func watchTabs(ctx context.Context, b access.Browser, add func(recording.Event)) error {
	conn, err := b.ConnectCDP(ctx, maxTabMessage)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	changes := subscribeTabs(conn)
	discover := map[string]any{"discover": true, "filter": []map[string]any{{"type": "page"}, {"exclude": true}}}
	if err := conn.Call(ctx, "", "Target.setDiscoverTargets", discover, nil); err != nil {
		return err
	}
	return readTabs(ctx, changes, recording.NewTabs(add))
}

func subscribeTabs(conn *cdp.Conn) *cdp.Subscription {
	return conn.Subscribe(tabEvents, "Target.targetCreated", "Target.targetInfoChanged", "Target.targetDestroyed")
}

// readTabs follows the changes of tabs until ctx or their subscription ends.
func readTabs(ctx context.Context, changes *cdp.Subscription, tabs *recording.Tabs) error {
	for {
		select {
		case e, ok := <-changes.Events():
			if !ok {
				return changes.Err()
			}
			updateTabs(tabs, e)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tabInfo describes a target.
type tabInfo struct{ TargetID, Type, URL, Subtype string }

func (i tabInfo) isTab() bool { return i.Type == "page" && i.Subtype == "" }

// updateTabs applies a change and returns the id of its tab.
func updateTabs(tabs *recording.Tabs, e cdp.Event) (id string) {
	var p struct {
		TargetID   string
		TargetInfo tabInfo
	}
	switch {
	case json.Unmarshal(e.Params, &p) != nil:
	case e.Method == "Target.targetDestroyed":
		tabs.Closed(p.TargetID)
	case p.TargetInfo.isTab():
		tabs.Seen(p.TargetInfo.TargetID, p.TargetInfo.URL)
	}
	return cmp.Or(p.TargetID, p.TargetInfo.TargetID)
}
