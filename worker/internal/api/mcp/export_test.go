package mcp

import "encoding/json"

// Format returns the snapshot of the nodes of Accessibility.getFullAXTree. Each reference
// is e and the node.
func Format(nodes string, skip int) (text string, total, written int, err error) {
	var all []axNode
	if err := json.Unmarshal([]byte(nodes), &all); err != nil {
		return "", 0, 0, err
	}
	tree := newFrameTree(all, func(node int) string { return "e" + string(rune('0'+node)) })
	w := &treeWriter{skip: skip}
	w.lines(tree.lines(tree.root, ""), 0)
	return w.String(), w.total, w.written, nil
}

// ParseKeys returns the names of the keys of a text.
func ParseKeys(text string) (names []string, err error) {
	held, k, err := parseKeys(text)
	for _, m := range held {
		names = append(names, m.Name)
	}
	return append(names, k.Name), err
}

// Mark marks content of a page.
func Mark(content string) string { return mark(content) }

// WithScheme adds a scheme to an address without one.
func WithScheme(address string) string { return withScheme(address) }
