// Package secretfill fills fields of pages with secrets. The caller gives the secret's name
// and gets no value.
//
// A value belongs to an origin, so the check and the fill are bound to one document: the
// field is resolved in a world of its own of that document, the browser process says which
// origin the frame has, and the value is set in the same world. A navigation in between
// destroys the world, and nothing is filled.
package secretfill

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// Request says what to fill.
type Request struct {
	Secret string `json:"secret"` // id or name
	Field  string `json:"field"`  // of the secret: username, password or totp

	// The element: Selector or BackendNodeID.
	Selector      string `json:"selector"`      // CSS; the first match in the document of the target
	BackendNodeID int    `json:"backendNodeId"` // in any document of the target
}

// Filled is a field that was filled.
type Filled struct {
	SecretID uuid.UUID `json:"secretId"`
	Field    string    `json:"field"`  // of the secret
	Origin   string    `json:"origin"` // of the document
}

// Secrets returns a value for the document of an origin. Its errors are *fault.Error.
type Secrets func(ctx context.Context, secret, field, origin string) (secretID uuid.UUID, value string, err error)

// errChanged means that the document or the field is gone.
var errChanged = fault.New(fault.Conflict, "The page has changed while the field was filled: nothing was filled. Retry when it has loaded.")

var errNoTarget = fault.New(fault.NotFound, "The browser has no such target.")

// Fill fills a field of a target, a page or a frame of another site. It adds the field to
// fields before it gets the value. The caller closes conn. Errors: Validation, Forbidden,
// Conflict, those of secrets, and those of conn.
func Fill(ctx context.Context, conn *cdp.Conn, targetID string, r Request, fields *Fields, secrets Secrets) (Filled, error) {
	if err := r.check(); err != nil {
		return Filled{}, err
	}
	d := &document{conn: conn}
	if err := d.resolve(ctx, targetID, r); err != nil {
		return Filled{}, err
	}
	origin, err := d.origin(ctx)
	if err != nil {
		return Filled{}, err
	}
	if err := d.apply(ctx, r); err != nil {
		return Filled{}, err
	}
	secretID, value, err := secrets(ctx, r.Secret, r.Field, origin)
	if err != nil {
		return Filled{}, err
	}
	fields.add(d.element, value)
	if err := d.apply(ctx, r, value); err != nil {
		return Filled{}, err
	}
	return Filled{SecretID: secretID, Field: r.Field, Origin: origin}, nil
}

func (r Request) check() error {
	var details []fault.Detail
	if r.Secret == "" {
		details = append(details, fault.Detail{Field: "secret", Code: fault.Required, Message: "must be the id or the name of a secret"})
	}
	if r.Field != "username" && r.Field != "password" && r.Field != "totp" {
		details = append(details, fault.Detail{Field: "field", Code: fault.InvalidEnumValue, Message: "must be username, password or totp"})
	}
	if (r.Selector == "") == (r.BackendNodeID == 0) {
		details = append(details, fault.Detail{Field: "selector", Code: fault.Custom, Message: "must be given, or backendNodeId in its place"})
	}
	if details != nil {
		return fault.Invalid(details...)
	}
	return nil
}

// document is the document of a field, with a world of its own.
type document struct {
	conn    *cdp.Conn
	session string
	frame   string
	object  string  // the field in the world
	element Element // the field
}

// frameTree is a frame of Page.getFrameTree.
type frameTree struct {
	Frame       struct{ ID, LoaderID string }
	ChildFrames []frameTree
}

// all returns the frame and those within.
func (f frameTree) all() []frameTree {
	frames := []frameTree{f}
	for _, child := range f.ChildFrames {
		frames = append(frames, child.all()...)
	}
	return frames
}

// resolve finds the field.
func (d *document) resolve(ctx context.Context, targetID string, r Request) error {
	var attached struct{ SessionID string }
	if err := d.conn.Call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": targetID, "flatten": true}, &attached); err != nil {
		if _, refused := errors.AsType[*cdp.Error](err); refused {
			return errNoTarget
		}
		return err
	}
	d.session = attached.SessionID
	var tree struct{ FrameTree frameTree }
	if err := d.conn.Call(ctx, d.session, "Page.getFrameTree", nil, &tree); err != nil {
		return changed(err)
	}
	if r.Selector != "" {
		return d.query(ctx, tree.FrameTree, r.Selector)
	}
	for _, f := range tree.FrameTree.all() {
		if found, err := d.resolveNode(ctx, f, r.BackendNodeID); found || err != nil {
			return err
		}
	}
	return noElement("backendNodeId", "names no element of this page or frame")
}

// resolveNode resolves a node that may be in the document of a frame.
func (d *document) resolveNode(ctx context.Context, f frameTree, node int) (found bool, err error) {
	world, err := d.createWorld(ctx, f)
	if errors.Is(err, errChanged) {
		return false, nil // the frame is gone
	}
	if err != nil {
		return false, err
	}
	var resolved struct{ Object struct{ ObjectID string } }
	resolve := map[string]any{"backendNodeId": node, "executionContextId": world}
	err = d.conn.Call(ctx, d.session, "DOM.resolveNode", resolve, &resolved)
	var answer struct{ Result struct{ Value bool } }
	if err == nil { // also for a node of another document
		call := map[string]any{"objectId": resolved.Object.ObjectID, "functionDeclaration": belongsScript, "returnByValue": true, "silent": true}
		err = d.conn.Call(ctx, d.session, "Runtime.callFunctionOn", call, &answer)
	}
	if _, refused := errors.AsType[*cdp.Error](err); refused {
		return false, nil
	}
	d.object, d.element = resolved.Object.ObjectID, Element{f.Frame.LoaderID, node}
	return answer.Result.Value, err
}

// createWorld creates a world for a document.
func (d *document) createWorld(ctx context.Context, f frameTree) (contextID int, err error) {
	var world struct{ ExecutionContextID int }
	create := map[string]any{"frameId": f.Frame.ID, "worldName": rand.Text()}
	d.frame = f.Frame.ID
	return world.ExecutionContextID, changed(d.conn.Call(ctx, d.session, "Page.createIsolatedWorld", create, &world))
}

// query finds the first match of a selector in the document of a frame.
func (d *document) query(ctx context.Context, f frameTree, selector string) error {
	world, err := d.createWorld(ctx, f)
	if err != nil {
		return err
	}
	text, err := json.Marshal(selector)
	if err != nil {
		return err
	}
	var found struct {
		Result           struct{ ObjectID string }
		ExceptionDetails json.RawMessage
	}
	evaluate := map[string]any{"expression": fmt.Sprintf("document.querySelector(%s)", text), "contextId": world, "silent": true}
	switch err := d.conn.Call(ctx, d.session, "Runtime.evaluate", evaluate, &found); {
	case err != nil:
		return changed(err)
	case found.ExceptionDetails != nil:
		return fault.Field("selector", "is no CSS selector")
	case found.Result.ObjectID == "":
		return noElement("selector", "matches no element of the page")
	}
	var described struct{ Node struct{ BackendNodeID int } }
	if err := d.conn.Call(ctx, d.session, "DOM.describeNode", map[string]any{"objectId": found.Result.ObjectID}, &described); err != nil {
		return changed(err)
	}
	d.object, d.element = found.Result.ObjectID, Element{f.Frame.LoaderID, described.Node.BackendNodeID}
	return nil
}

func noElement(field, message string) error {
	return fault.New(fault.Conflict, "The page has no such field. Take a new look at it: it may have changed.", fault.Detail{Field: field, Code: fault.Custom, Message: message})
}

// origin returns the origin of the document, which the browser process knows: its renderer
// has answered after the document was committed. Opaque origins are refused.
func (d *document) origin(ctx context.Context) (string, error) {
	var storage struct{ StorageKey string }
	err := d.conn.Call(ctx, d.session, "Storage.getStorageKeyForFrame", map[string]any{"frameId": d.frame}, &storage)
	if _, refused := errors.AsType[*cdp.Error](err); refused {
		return "", errNoOrigin
	}
	if err != nil {
		return "", err
	}
	// The key of a frame of another site continues with that of the page.
	key, _, _ := strings.Cut(storage.StorageKey, "^")
	origin := strings.TrimSuffix(key, "/")
	if !strings.HasPrefix(origin, "https://") && !strings.HasPrefix(origin, "http://") {
		return "", errNoOrigin
	}
	return origin, nil
}

var errNoOrigin = fault.New(fault.Forbidden, "Secrets are filled only into documents of http and https origins.", fault.Detail{
	Field: "origin", Code: fault.Custom, Message: "the document has none: it is in a sandbox, or is a data: or blank document, or a file",
})

// apply calls fieldScript on the field: without a value, it only checks the field.
func (d *document) apply(ctx context.Context, r Request, value ...string) error {
	arguments := []map[string]any{{"value": r.Field}}
	for _, v := range value {
		arguments = append(arguments, map[string]any{"value": v})
	}
	var answer struct {
		Result           struct{ Value string }
		ExceptionDetails json.RawMessage
	}
	call := map[string]any{"objectId": d.object, "functionDeclaration": fieldScript, "arguments": arguments, "returnByValue": true, "silent": true}
	if err := d.conn.Call(ctx, d.session, "Runtime.callFunctionOn", call, &answer); err != nil {
		return changed(err)
	}
	if answer.ExceptionDetails != nil { // its text could quote the value
		return errChanged
	}
	field := "selector"
	if r.Selector == "" {
		field = "backendNodeId"
	}
	message, ok := refusals[answer.Result.Value]
	switch {
	case answer.Result.Value == "changed":
		return errChanged
	case ok:
		return fault.New(fault.Conflict, "This field cannot be filled with the "+r.Field+" of a secret.", fault.Detail{Field: field, Code: fault.Custom, Message: message})
	}
	return nil
}

// changed converts a refusal of the browser: the target, the document or the field is gone.
func changed(err error) error {
	if _, refused := errors.AsType[*cdp.Error](err); refused {
		return errChanged
	}
	return err
}
