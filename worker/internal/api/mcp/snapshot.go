package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
)

// element is what a reference of a snapshot names.
type element struct {
	session string // CDP session of its frame
	frame   string
	loader  string // of the document, so that no later document is meant
	node    int    // backend DOM node
}

// document is a document of a tab.
type document struct {
	session, frame, loader string
	parent                 string // frame
	owner                  int    // node of the parent that contains the frame; 0 for none
}

// documents returns the documents of a tab, parents first.
func (b *browser) documents(ctx context.Context, t *tab) ([]document, error) {
	b.mu.Lock()
	frames := append([]embedded{{session: t.session}}, t.frames...)
	b.mu.Unlock()
	var all []document
	for i, f := range frames {
		var tree struct{ FrameTree frameInfo }
		if err := b.callIn(ctx, t, f.session, "Page.getFrameTree", nil, &tree); err != nil {
			if i > 0 && ctx.Err() == nil {
				continue // the frame is gone
			}
			return nil, err
		}
		all = tree.FrameTree.appendTo(all, f.session)
	}
	return all, nil
}

type frameInfo struct {
	Frame       struct{ ID, ParentID, LoaderID string }
	ChildFrames []frameInfo
}

func (f frameInfo) appendTo(all []document, session string) []document {
	all = append(all, document{session: session, frame: f.Frame.ID, loader: f.Frame.LoaderID, parent: f.Frame.ParentID})
	for _, child := range f.ChildFrames {
		all = child.appendTo(all, session)
	}
	return all
}

// snapshot returns the accessibility tree of a tab as text, from a line on, and makes its
// references valid.
func (b *browser) snapshot(ctx context.Context, t *tab, skip int) (string, error) {
	documents, err := b.documents(ctx, t)
	if err != nil {
		return "", err
	}
	refs := b.newReferences(t)
	trees, layouts := map[string]*frameTree{}, map[string]*layout{} // by frame
	for i, d := range documents {
		if trees[d.parent] != nil {
			// An error means that the frame is gone, and then readTree fails too.
			d.owner, _ = b.owner(ctx, t, sessionOf(documents, d.parent), d.frame)
		}
		tree, err := b.readTree(ctx, t, d, refs, layouts)
		if err != nil && (i == 0 || ctx.Err() != nil) {
			return "", err
		}
		if err != nil {
			continue // the frame is gone
		}
		trees[d.frame] = tree
		if d.owner != 0 {
			trees[d.parent].inside[d.owner] = tree
		}
	}
	top := trees[documents[0].frame]
	out := &treeWriter{skip: skip}
	out.lines(top.lines(top.root, ""), 0)
	b.mu.Lock()
	t.snapshot = refs.byName
	b.mu.Unlock()
	if rest := out.total - skip - out.written; rest > 0 {
		_, _ = fmt.Fprintf(out, "(cut: %d more lines. Call snapshot with offset %d for them.)\n", rest, skip+out.written)
	}
	return out.String(), nil
}

func sessionOf(documents []document, frame string) string {
	for _, d := range documents {
		if d.frame == frame {
			return d.session
		}
	}
	return ""
}

func (b *browser) readTree(ctx context.Context, t *tab, d document, refs *references, layouts map[string]*layout) (*frameTree, error) {
	if layouts[d.frame] == nil {
		backdrop := white
		if parent := layouts[d.parent]; parent != nil {
			backdrop = parent.frameBackdrop(d.owner)
		}
		if _, err := b.layouts(ctx, t, d.session, backdrop, layouts); err != nil {
			return nil, err
		}
	}
	var tree struct{ Nodes []axNode }
	if err := b.callIn(ctx, t, d.session, "Accessibility.getFullAXTree", map[string]any{"frameId": d.frame}, &tree); err != nil {
		return nil, err
	}
	read := newFrameTree(tree.Nodes, func(node int) string {
		return refs.name(element{session: d.session, frame: d.frame, loader: d.loader, node: node})
	})
	read.hidden = layouts[d.frame].hidden()
	read.filled = func(node int) bool { return b.filled.Contain(secretfill.Element{Loader: d.loader, Node: node}) }
	return read, nil
}

// owner returns the node of the element that contains a frame, in the session of its parent.
func (b *browser) owner(ctx context.Context, t *tab, session, frame string) (node int, err error) {
	var answer struct{ BackendNodeID int }
	if err := b.callIn(ctx, t, session, "DOM.enable", nil, nil); err != nil {
		return 0, err
	}
	err = b.callIn(ctx, t, session, "DOM.getFrameOwner", map[string]any{"frameId": frame}, &answer)
	return answer.BackendNodeID, err
}

// references assigns names to the elements of a snapshot. An element keeps its name in
// later snapshots, and no name is used twice.
type references struct {
	browser *browser
	earlier map[element]string
	byName  map[string]element
}

func (b *browser) newReferences(t *tab) *references {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &references{browser: b, earlier: map[element]string{}, byName: map[string]element{}}
	for name, e := range t.snapshot {
		r.earlier[e] = name
	}
	return r
}

func (r *references) name(e element) string {
	name, ok := r.earlier[e]
	if !ok {
		r.browser.refs++
		name = fmt.Sprintf("e%d", r.browser.refs)
		r.earlier[e] = name
	}
	r.byName[name] = e
	return name
}

func errStale(ref string) error {
	return toolError(fmt.Sprintf("The reference %s is stale or unknown: the page has changed since the snapshot. Take a new snapshot and use its references.", quote(ref)))
}

// find returns the element with a reference, if its document is still shown.
func (b *browser) find(ctx context.Context, t *tab, ref string) (element, error) {
	b.mu.Lock()
	e, ok := t.snapshot[ref]
	b.mu.Unlock()
	if !ok {
		return e, errStale(ref)
	}
	documents, err := b.documents(ctx, t)
	if err != nil {
		return e, err
	}
	for _, d := range documents {
		if d.session == e.session && d.frame == e.frame && d.loader == e.loader {
			return e, nil
		}
	}
	return e, errStale(ref)
}

// refused converts a refusal of a command about an element, which names a node that was
// removed or that is not rendered.
func refused(err error, ref string) error {
	refusal, ok := errors.AsType[*cdp.Error](err)
	switch {
	case !ok:
		return err
	case strings.Contains(refusal.Message, "layout object"):
		return errInvisible(ref)
	}
	return errStale(ref)
}

func errInvisible(ref string) error {
	return toolError(fmt.Sprintf("The element %s is not visible, so it cannot be used. Take a new snapshot, or act on what shows it first.", ref))
}
