package trace

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	captureTimeout = 8 * time.Second // of a page, which may load or be busy
	pictureTimeout = 3 * time.Second
	checkTimeout   = time.Second

	maxChars       = 3 << 20 // of the DOM of a document
	maxChildren    = 10      // frames below the main frame with snapshots
	maxTries       = 3       // of a capture, if another document replaces the present one
	pictureQuality = 60
)

var errTooLarge = errors.New("the page is too large")

// frame is a frame of a page with its snapshot.
type frame struct {
	id   string
	html json.RawMessage
	documentState
}

// documentState is what snapshotFunction returns.
type documentState struct {
	At            float64
	HTML          json.RawMessage
	Problem       string
	Index         int
	SecretVisible bool
	Doctype, URL  string
	Frames        int
	Viewport      struct{ Width, Height int }
}

// snapshot is a captured page.
type snapshot struct {
	frames        []frame // the main frame is the first one
	picture       []byte  // a JPEG; nil without one
	width, height int
	began, ended  time.Time
}

// pageSession is a page on the worker's connection.
type pageSession struct {
	conn            *cdp.Conn
	session, target string
	world           string // name of the worker's world, which pages cannot guess
	filled          interface{ Nodes(string) []int }
}

func (p pageSession) call(ctx context.Context, method string, params, result any) error {
	return p.conn.Call(ctx, p.session, method, params, result)
}

// context returns the worker's world in a frame.
func (p pageSession) context(ctx context.Context, frameID string) (id int, err error) {
	var world struct{ ExecutionContextID int }
	err = p.call(ctx, "Page.createIsolatedWorld", object{"frameId": frameID, "worldName": p.world}, &world)
	return world.ExecutionContextID, err
}

// watchFocus begins to note the focus in a document.
func (p pageSession) watchFocus(ctx context.Context, frameID string) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if id, err := p.context(ctx, frameID); err == nil {
		_ = p.call(ctx, "Runtime.evaluate", object{"expression": focusScript, "contextId": id, "silent": true}, nil) // fails if the document is gone
	}
}

// focusLog is what focusCheck returns, with times in milliseconds since 1970.
type focusLog struct {
	Since, Now float64
	Log        []struct {
		T    float64
		Kind string
	}
}

// checkFocus returns which kinds of fields had the focus.
func (p pageSession) checkFocus(ctx context.Context) (log focusLog, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	id, err := p.context(ctx, p.target)
	if err != nil {
		return focusLog{}, err
	}
	var answer struct{ Result struct{ Value *focusLog } }
	sent := time.Now()
	err = p.call(ctx, "Runtime.evaluate", object{"expression": focusCheck, "contextId": id, "returnByValue": true, "silent": true}, &answer)
	switch {
	case err != nil:
		return focusLog{}, err
	case answer.Result.Value == nil:
		return focusLog{}, errors.New("the focus is not noted")
	}
	log = *answer.Result.Value
	if log.Now < millis(sent)-5 || log.Now > millis(time.Now())+5 {
		return focusLog{}, errors.New("the page has another time") // as with virtual time
	}
	return log, nil
}

func millis(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

// frameTree is the tree of frames of a page.
type frameTree struct {
	Frame       struct{ ID, LoaderID string }
	ChildFrames []frameTree
}

// flat returns the frames, at most so many, the main frame first.
func (f frameTree) flat(limit int) (frames []frameTree) {
	frames = []frameTree{f}
	for _, child := range f.ChildFrames {
		if len(frames) < limit {
			frames = append(frames, child.flat(limit-len(frames))...)
		}
	}
	return frames
}

// capture captures the page. With wait, it waits until its document is loaded.
func (p pageSession) capture(ctx context.Context, wait, picture bool) (s snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, captureTimeout)
	defer cancel()
	s.began = time.Now()
	for try := 1; ; try++ {
		s.frames, err = p.captureFrames(ctx, wait)
		if _, refused := errors.AsType[*cdp.Error](err); !refused || try == maxTries {
			break
		}
	}
	if err != nil {
		return s, err
	}
	s.ended = time.Now()
	for _, f := range s.frames {
		picture = picture && !f.SecretVisible
	}
	if picture {
		s.picture, s.width, s.height = p.picture(ctx)
	}
	return s, nil
}

func (p pageSession) captureFrames(ctx context.Context, wait bool) ([]frame, error) {
	var tree struct{ FrameTree frameTree }
	if err := p.call(ctx, "Page.getFrameTree", nil, &tree); err != nil {
		return nil, err
	}
	root, err := p.captureFrame(ctx, tree.FrameTree, wait)
	if err != nil {
		return nil, err
	}
	frames := []frame{root}
	if wait && len(tree.FrameTree.ChildFrames) < root.Frames {
		_ = p.call(ctx, "Page.getFrameTree", nil, &tree) // the frames that were added while it loaded
	}
	for _, child := range tree.FrameTree.flat(maxChildren + 1)[1:] {
		if captured, err := p.captureFrame(ctx, child, false); err == nil { // a frame of another process has no snapshot
			frames = append(frames, captured)
		}
	}
	link(frames, tree.FrameTree)
	return frames, nil
}

// captureFrame captures a frame of the page's process.
func (p pageSession) captureFrame(ctx context.Context, tree frameTree, wait bool) (frame, error) {
	id, err := p.context(ctx, tree.Frame.ID)
	if err != nil {
		return frame{}, err
	}
	arguments := []object{{"value": wait}, {"value": maxChars}}
	for _, node := range p.filled.Nodes(tree.Frame.LoaderID) {
		var resolved struct{ Object struct{ ObjectID string } }
		if p.call(ctx, "DOM.resolveNode", object{"backendNodeId": node, "executionContextId": id}, &resolved) == nil { // fails if the field is gone
			arguments = append(arguments, object{"objectId": resolved.Object.ObjectID})
		}
	}
	var answer struct {
		Result           struct{ Value string }
		ExceptionDetails *struct{ Text string }
	}
	if err := p.call(ctx, "Runtime.callFunctionOn", object{
		"functionDeclaration": snapshotFunction, "executionContextId": id, "arguments": arguments, "returnByValue": true, "awaitPromise": true, "silent": true,
	}, &answer); err != nil {
		return frame{}, err
	}
	f := frame{id: tree.Frame.ID}
	if err := json.Unmarshal([]byte(answer.Result.Value), &f.documentState); err != nil {
		return frame{}, fmt.Errorf("the page has no snapshot: %w", err)
	}
	if f.Problem != "" {
		return frame{}, errTooLarge
	}
	f.html = f.HTML
	return f, nil
}

// link names the frames in the elements that show them.
func link(frames []frame, tree frameTree) {
	byID := map[string]*frame{}
	for i := range frames {
		byID[frames[i].id] = &frames[i]
	}
	var visit func(frameTree)
	visit = func(t frameTree) {
		parent := byID[t.Frame.ID]
		for _, child := range t.ChildFrames {
			if captured := byID[child.Frame.ID]; parent != nil && captured != nil {
				parent.html = bytes.ReplaceAll(parent.html, fmt.Appendf(nil, `"/snapshot/svcframe-%d"`, captured.Index), fmt.Appendf(nil, `"/snapshot/%s"`, captured.id))
			}
			visit(child)
		}
	}
	visit(tree)
	for i := range frames {
		frames[i].html = unlinked().ReplaceAll(frames[i].html, []byte(`""`))
	}
}

// unlinked are the addresses of frames without snapshots.
var unlinked = lazy.Regexp(`"/snapshot/svcframe-[0-9]+"`)

// picture returns a JPEG of the page; nil if there is none.
func (p pageSession) picture(ctx context.Context) (data []byte, width, height int) {
	ctx, cancel := context.WithTimeout(ctx, pictureTimeout)
	defer cancel()
	var shot struct{ Data string }
	if p.call(ctx, "Page.captureScreenshot", object{"format": "jpeg", "quality": pictureQuality, "optimizeForSpeed": true}, &shot) != nil {
		return nil, 0, 0
	}
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		return nil, 0, 0
	}
	size, err := jpeg.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, 0, 0
	}
	return data, size.Width, size.Height
}
