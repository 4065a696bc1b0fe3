package interaction

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/script"
)

const (
	causedSpan  = 3 * time.Second // in which a page goes back or reloads because of a step
	frameLevels = 10
	maxFrames   = 1000
	maxPayload  = 64 << 10 // bytes of a step
)

// stepTab is a tab whose steps are followed.
type stepTab struct {
	session, opener string
	started         bool // a site was opened in it
	acted           time.Time

	entries      map[int]bool // of its history that were opened
	entry, index int          // the present one
}

// stepFrame is a frame of a tab.
type stepFrame struct {
	session, parent string
	element         script.Locator
}

// steps follows what is done, for a script.
type steps struct {
	*watcher
	add      func(script.Step)
	existing int // tabs that were open before and are not followed yet
	byID     map[string]*stepTab

	framesMu sync.Mutex
	frames   map[string]stepFrame
}

// WatchSteps calls add for each step, in order, until ctx or the connection ends. world is as for Watch.
//
// Unlike Watch, it reports values, except those of fields for secrets.
func WatchSteps(ctx context.Context, conn *cdp.Conn, world string, add func(script.Step)) error {
	s := &steps{add: add, byID: map[string]*stepTab{}, frames: map[string]stepFrame{}}
	s.watcher = newWatcher(conn, world)
	s.steps = s
	return s.run(ctx)
}

// opened follows a tab. Tabs that were open before have no opener.
func (s *steps) opened(session, tab, opener string) {
	if s.existing > 0 {
		s.existing--
		opener = ""
	}
	s.byID[tab] = &stepTab{session: session, opener: opener, entries: map[int]bool{}}
	s.add(script.Step{Kind: script.Tab, Tab: tab, Opener: opener})
}

func (s *steps) detached(session string) {
	for id, t := range s.byID {
		if t.session == session {
			delete(s.byID, id)
			if time.Since(t.acted) > causedSpan { // otherwise the page may have closed itself
				s.add(script.Step{Kind: script.Close, Tab: id})
			}
		}
	}
	s.framesMu.Lock()
	defer s.framesMu.Unlock()
	maps.DeleteFunc(s.frames, func(_ string, f stepFrame) bool { return f.session == session })
}

// document follows a new document of a frame.
func (s *steps) document(session, frame string) {
	s.framesMu.Lock()
	defer s.framesMu.Unlock()
	f := s.frames[frame]
	f.session = session
	if s.byID[frame] != nil || len(s.frames) > maxFrames { // the frames of the document before are gone
		maps.DeleteFunc(s.frames, func(_ string, f stepFrame) bool { return f.session == session })
	}
	s.frames[frame] = f
}

// navigated finds out why a tab has a new document. The browser answers, not the page.
func (s *steps) navigated(ctx context.Context, session, frame string) {
	t := s.byID[frame] // the main frame has the id of its tab
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var history struct {
		CurrentIndex int
		Entries      []historyEntry
	}
	if s.conn.Call(ctx, session, "Page.getNavigationHistory", nil, &history) != nil || history.CurrentIndex < 0 || history.CurrentIndex >= len(history.Entries) {
		return
	}
	entry := history.Entries[history.CurrentIndex]
	switch kind := t.visit(entry, history.CurrentIndex); kind {
	case "":
	case script.Goto:
		s.add(script.Step{Kind: kind, Tab: frame, URL: entry.address()})
	case script.Arrive:
		s.add(script.Step{Kind: kind, Tab: frame, URL: entry.place()})
	default:
		s.add(script.Step{Kind: kind, Tab: frame})
	}
}

// historyEntry is an entry of the history of a tab.
type historyEntry struct {
	ID                                int
	URL, UserTypedURL, TransitionType string
}

// visit returns how the entry at an index was opened; "" if it cannot be told or was open before.
func (t *stepTab) visit(e historyEntry, index int) (kind script.Kind) {
	if e.address() == "" {
		return ""
	}
	again, other, before, started := t.entries[e.ID], e.ID != t.entry, t.index, t.started
	t.entry, t.index, t.started = e.ID, index, true
	t.entries[e.ID] = true
	switch {
	case !started && t.opener == "": // however the page was opened
		return script.Goto
	case again && other && index < before:
		kind = script.Back
	case again && other:
		kind = script.Forward
	case e.TransitionType == "reload":
		kind = script.Reload
	case again:
		return ""
	case slices.Contains([]string{"link", "form_submit", "auto_subframe", "manual_subframe"}, e.TransitionType):
		if e.place() == "" {
			return ""
		}
		return script.Arrive
	default:
		return script.Goto
	}
	if time.Since(t.acted) < causedSpan {
		return ""
	}
	return kind
}

// address returns the address of a site, as it was typed, without a user and a password; "" for other pages.
func (e historyEntry) address() string {
	u, err := url.Parse(cmp.Or(e.UserTypedURL, e.URL))
	if err != nil || !slices.Contains([]string{"http", "https", "file", "data"}, u.Scheme) {
		return ""
	}
	u.User = nil
	return u.String()
}

// place returns the address of a site without what may be different the next time; "" if its path may be.
func (e historyEntry) place() string {
	u, err := url.Parse(e.address())
	if err != nil || u.Host == "" || strings.ContainsAny(u.Path, "0123456789") {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// installed finds out in which element a frame is.
func (s *steps) installed(ctx context.Context, session, frame string) {
	var tree struct{ FrameTree frameNode }
	if s.conn.Call(ctx, session, "Page.getFrameTree", nil, &tree) != nil {
		return
	}
	parent := tree.FrameTree.parentOf(frame)
	s.framesMu.Lock()
	outer, ok := s.frames[parent]
	s.framesMu.Unlock()
	if !ok { // the main frame has no parent
		return
	}
	var world struct{ ExecutionContextID int }
	var owner struct{ BackendNodeID int }
	var element struct{ Object struct{ ObjectID string } }
	var found struct {
		Result struct{ Value script.Locator }
	}
	call := func(method string, params map[string]any, result any) bool {
		return s.conn.Call(ctx, outer.session, method, params, result) == nil
	}
	_ = call("Page.createIsolatedWorld", map[string]any{"frameId": parent, "worldName": s.world}, &world) &&
		call("DOM.getFrameOwner", map[string]any{"frameId": frame}, &owner) &&
		call("DOM.resolveNode", map[string]any{"backendNodeId": owner.BackendNodeID, "executionContextId": world.ExecutionContextID, "objectGroup": objects}, &element) &&
		call("Runtime.callFunctionOn", map[string]any{"functionDeclaration": frameLocator, "objectId": element.Object.ObjectID, "returnByValue": true, "silent": true}, &found)
	if reply, err := s.conn.Send(ctx, outer.session, "Runtime.releaseObjectGroup", map[string]any{"objectGroup": objects}); err == nil {
		reply.Discard()
	}
	s.framesMu.Lock()
	defer s.framesMu.Unlock()
	s.frames[frame] = stepFrame{session: session, parent: parent, element: found.Result.Value}
}

// frameNode is a tree of frames.
type frameNode struct {
	Frame       struct{ ID, ParentID string }
	ChildFrames []frameNode
}

func (f frameNode) parentOf(id string) string {
	if f.Frame.ID == id {
		return f.Frame.ParentID
	}
	for _, child := range f.ChildFrames {
		if parent := child.parentOf(id); parent != "" {
			return parent
		}
	}
	return ""
}

// path returns the elements of the frames around a document, the outermost first.
func (s *steps) path(tab, frame string) (path []script.Locator) {
	s.framesMu.Lock()
	defer s.framesMu.Unlock()
	for ; frame != tab && frame != "" && len(path) < frameLevels; frame = s.frames[frame].parent {
		element := s.frames[frame].element
		if element.Path == "" { // the page was too fast
			element.Path = "iframe"
		}
		path = append([]script.Locator{element}, path...)
	}
	return path
}

// reported adds what the script has sent.
func (s *steps) reported(session, payload string) {
	var r struct {
		script.Step
		Frame string
	}
	if len(payload) > maxPayload {
		s.add(script.Step{Kind: script.Missing})
		return
	}
	if json.Unmarshal([]byte(payload), &r) != nil {
		return
	}
	s.mu.Lock()
	r.Tab = s.tabs[session]
	s.mu.Unlock()
	r.Frames = s.path(r.Tab, r.Frame)
	if t := s.byID[r.Tab]; t != nil {
		t.acted = time.Now()
	}
	s.add(r.Step)
}

// expression returns what runs in a document of a frame.
func (s *steps) expression(frame string) string { return fmt.Sprintf("(%s)(%q)", stepScript, frame) }
