package storagestate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/weborigin"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// MaxSize limits the storage that Read returns, in bytes of JSON.
const MaxSize = 16 << 20

// ErrTooLarge is returned by Read for more storage than MaxSize.
var ErrTooLarge = errors.New("the storage state is larger than 16 MB")

// tooLarge is the text of storage.js for ErrTooLarge.
const tooLarge = "svc: too large"

// Read returns the state of the default browser context: all cookies, and the storage
// of the origins that tabs show and of these further ones. Tabs that are open are not
// disturbed; for other origins a blank tab is opened for a moment. Without databases,
// IndexedDB is left out.
func Read(ctx context.Context, conn *cdp.Conn, origins []string, databases bool) (State, error) {
	state := State{Origins: []Origin{}}
	var err error
	if state.Cookies, err = readCookies(ctx, conn); err != nil {
		return State{}, err
	}
	r := reader{conn: conn, databases: databases, remaining: MaxSize, done: map[string]bool{}, state: &state}
	if err := r.readOpenTabs(ctx); err != nil {
		return State{}, err
	}
	if err := r.readOthers(ctx, origins); err != nil {
		return State{}, err
	}
	slices.SortFunc(state.Origins, func(a, b Origin) int { return strings.Compare(a.Origin, b.Origin) })
	return state, nil
}

// reader collects the storage of origins.
type reader struct {
	conn      *cdp.Conn
	databases bool
	remaining int             // of MaxSize
	done      map[string]bool // origins
	missed    []string        // origins of open tabs that could not be read
	state     *State
}

type targetInfo struct{ TargetID, Type, BrowserContextID string }

// readOpenTabs reads the storage of all frames of the default context's tabs.
func (r *reader) readOpenTabs(ctx context.Context) error {
	targets, err := defaultTargets(ctx, r.conn)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := r.readTarget(ctx, t.TargetID); err != nil {
			return err
		}
	}
	return nil
}

// defaultTargets returns the tabs and the frames with an own process of the default
// context.
func defaultTargets(ctx context.Context, conn *cdp.Conn) ([]targetInfo, error) {
	var contexts struct{ BrowserContextIDs []string }
	if err := conn.Call(ctx, "", "Target.getBrowserContexts", nil, &contexts); err != nil {
		return nil, err
	}
	var list struct{ TargetInfos []targetInfo }
	if err := conn.Call(ctx, "", "Target.getTargets", nil, &list); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.TargetInfos, func(t targetInfo) bool {
		return t.Type != "page" && t.Type != "iframe" || slices.Contains(contexts.BrowserContextIDs, t.BrowserContextID)
	}), nil
}

type frameTree struct {
	Frame       struct{ ID, SecurityOrigin string }
	ChildFrames []frameTree
}

// readTarget reads the frames of one tab. A tab that cannot be read, because it is
// busy, has crashed or was closed, is left to readOthers.
func (r *reader) readTarget(ctx context.Context, target string) error {
	tabCtx, cancel := context.WithTimeout(ctx, tabTimeout)
	defer cancel()
	session, err := attach(tabCtx, r.conn, target)
	if err != nil {
		return ctx.Err()
	}
	defer detach(r.conn, session)
	var tree struct{ FrameTree frameTree }
	if err := r.conn.Call(tabCtx, session, "Page.getFrameTree", nil, &tree); err != nil {
		return ctx.Err()
	}
	return r.readFrames(ctx, tabCtx, session, tree.FrameTree)
}

func (r *reader) readFrames(ctx, tabCtx context.Context, session string, tree frameTree) error {
	if origin := weborigin.Of(tree.Frame.SecurityOrigin); origin != "" && !r.done[origin] {
		err := r.readFrame(tabCtx, frame{session: session, id: tree.Frame.ID, origin: origin})
		if errors.Is(err, ErrTooLarge) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err != nil {
			r.missed = append(r.missed, origin)
		}
	}
	for _, child := range tree.ChildFrames {
		if err := r.readFrames(ctx, tabCtx, session, child); err != nil {
			return err
		}
	}
	return nil
}

// readOthers reads the storage of those origins that no tab shows.
func (r *reader) readOthers(ctx context.Context, origins []string) error {
	var blank *blankPage
	defer func() {
		if blank != nil {
			blank.close()
		}
	}()
	for _, address := range append(slices.Clip(origins), r.missed...) {
		origin := weborigin.Of(address)
		if origin == "" || r.done[origin] {
			continue
		}
		if blank == nil {
			var err error
			if blank, err = openBlankPage(ctx, r.conn); err != nil {
				return err
			}
		}
		f, err := blank.open(ctx, origin)
		if err != nil {
			return err
		}
		if err := r.readFrame(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// readFrame reads the storage of a frame's origin.
func (r *reader) readFrame(ctx context.Context, f frame) error {
	var raw json.RawMessage
	if err := f.call(ctx, r.conn, "read", &raw, r.databases, r.remaining); err != nil {
		if failed, ok := errors.AsType[*scriptError](err); ok && strings.Contains(failed.description, tooLarge) {
			return ErrTooLarge
		}
		return err
	}
	read := struct {
		Origin
		OmittedRecords int `json:"omittedRecords"`
	}{}
	if err := json.Unmarshal(raw, &read); err != nil {
		return fmt.Errorf("storage of %s: %w", f.origin, err)
	}
	r.remaining -= len(raw)
	r.done[f.origin] = true
	r.state.OmittedRecords += read.OmittedRecords
	if read.Origin.Origin = f.origin; len(read.LocalStorage)+len(read.IndexedDB) > 0 {
		r.state.Origins = append(r.state.Origins, read.Origin)
	}
	return nil
}
