package interaction

import (
	"context"
	"errors"
	"fmt"
)

// objects is the group of the remote objects of this package.
const objects = "interaction"

var errGone = errors.New("interaction: the element does not exist any more")

// controls are the roles that name what was clicked better than a part of it does.
var controls = map[string]bool{
	"button": true, "link": true, "checkbox": true, "radio": true, "switch": true, "tab": true, "menuitem": true, "menuitemcheckbox": true,
	"menuitemradio": true, "option": true, "treeitem": true, "slider": true, "spinbutton": true, "PopUpButton": true,
}

// fields are the roles whose name does not contain their text.
var fields = map[string]bool{
	"textbox": true, "searchbox": true, "combobox": true, "spinbutton": true, "slider": true, "listbox": true, "Date": true, "DateTime": true,
	"InputTime": true, "ColorWell": true,
}

// node is a node of the accessibility tree.
type node struct {
	NodeID, ParentID string
	Ignored          bool
	Role, Name       struct{ Value any }
}

func (n node) role() string { return text(n.Role.Value) }
func (n node) name() string { return text(n.Name.Value) }

func text(value any) string {
	s, _ := value.(string) // other types have no name
	return s
}

// describe returns the role and the accessible name of the element of a report.
func (w *watcher) describe(ctx context.Context, session string, world int, r report) (role, name string, err error) {
	var found struct{ Result struct{ ObjectID string } }
	evaluate := map[string]any{"expression": fmt.Sprintf(usedElement, r.Slot), "contextId": world, "objectGroup": objects, "silent": true}
	if err := w.conn.Call(ctx, session, "Runtime.evaluate", evaluate, &found); err != nil {
		return "", "", err
	}
	if found.Result.ObjectID == "" {
		return "", "", errGone
	}
	var tree struct{ Nodes []node }
	err = w.conn.Call(ctx, session, "Accessibility.getPartialAXTree", map[string]any{"objectId": found.Result.ObjectID, "fetchRelatives": true}, &tree)
	// The page must not keep an element longer than without this package.
	if reply, err := w.conn.Send(ctx, session, "Runtime.releaseObjectGroup", map[string]any{"objectGroup": objects}); err == nil {
		reply.Discard()
	}
	if err != nil {
		return "", "", err
	}
	if len(tree.Nodes) == 0 {
		return "", "", errGone
	}
	role, name = nameOf(tree.Nodes, r.Field)
	return role, name, nil
}

// nameOf returns the role and the name of the first node or, unless it is a field, of the
// control that contains it.
func nameOf(nodes []node, field bool) (role, name string) {
	first := nodes[0]
	if field {
		if !fields[first.role()] { // its name can be its text
			return first.role(), ""
		}
		return first.role(), first.name()
	}
	byID := map[string]node{}
	for _, n := range nodes {
		byID[n.NodeID] = n
	}
	for current, ok := first, true; ok; current, ok = byID[current.ParentID] {
		if controls[current.role()] {
			return current.role(), current.name()
		}
		delete(byID, current.NodeID) // no loops
	}
	if first.Ignored {
		return "", ""
	}
	return first.role(), first.name()
}
