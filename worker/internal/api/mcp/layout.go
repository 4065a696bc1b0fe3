package mcp

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// layoutStyles are the computed styles that layouts have, in the order of the constants below.
var layoutStyles = []string{
	"display", "visibility", "opacity", "-webkit-text-fill-color", "font-size", "filter", "clip-path", "clip", "position", "overflow-x",
	"background-color", "background-image", "background-clip", "transform", "white-space-collapse", "color-scheme", "direction",
}

const (
	styleDisplay = iota
	styleVisibility
	styleOpacity
	styleColor
	styleFontSize
	styleFilter
	styleClipPath
	styleClip
	stylePosition
	styleOverflow
	styleBackground
	styleImage
	styleBackgroundClip
	styleTransform
	styleSpaces
	styleScheme
	styleDirection
)

// layoutAnswer is the answer to DOMSnapshot.captureSnapshot. Numbers of names, texts and
// styles are indexes of Strings; those of nodes are indexes of the lists of Nodes.
type layoutAnswer struct {
	Documents []struct {
		FrameID                      int
		ContentWidth, ContentHeight  float64
		ScrollOffsetX, ScrollOffsetY float64
		Nodes                        struct {
			ParentIndex, NodeName, NodeValue, BackendNodeID []int
			ContentDocumentIndex                            struct{ Index, Value []int }
		}
		Layout struct {
			NodeIndex, Text, PaintOrders []int
			Styles                       [][]int
			Bounds                       [][]float64
			OffsetRects, ScrollRects     [][]float64 // of elements, in CSS pixels
		}
	}
	Strings []string
}

// rect is an area of a document.
type rect struct{ left, top, right, bottom float64 }

func (r rect) intersect(other rect) rect {
	return rect{max(r.left, other.left), max(r.top, other.top), min(r.right, other.right), min(r.bottom, other.bottom)}
}

func (r rect) contains(p point) bool {
	return r.left <= p.x && p.x < r.right && r.top <= p.y && p.y < r.bottom
}

func (r rect) center() point { return point{(r.left + r.right) / 2, (r.top + r.bottom) / 2} }

// box is a box of the layout: an element, or a text.
type box struct {
	node      int // backend DOM node
	name      string
	text      string // "" for elements
	parent    int    // index of the box of the next ancestor that has one; -1 for none
	area      rect
	content   rect // what scrolling in it reaches
	styles    []string
	order     int     // of painting
	opacity   float64 // with that of the ancestors
	concealed bool    // by a clip or a style of it or an ancestor
}

func (b *box) style(i int) string {
	if i < len(b.styles) {
		return b.styles[i]
	}
	return ""
}

// layout is the layout of a document.
type layout struct {
	boxes      []box
	backs      []int // the boxes that paint a background
	viewport   rect  // in the coordinates of the document
	reachable  rect  // by scrolling
	canvas     paint
	unrendered []string // texts without a box
}

// layouts adds the layouts of the documents of a CDP session by frame. backdrop is what is
// painted behind the first one, which is returned.
func (b *browser) layouts(ctx context.Context, t *tab, session string, backdrop paint, byFrame map[string]*layout) (*layout, error) {
	var answer layoutAnswer
	if err := b.callIn(ctx, t, session, "DOMSnapshot.captureSnapshot", map[string]any{"computedStyles": layoutStyles, "includePaintOrder": true, "includeDOMRects": true}, &answer); err != nil {
		return nil, err
	}
	var first *layout
	backgrounds := map[int]paint{0: backdrop} // by document
	for i := range answer.Documents {
		d := &answer.Documents[i]
		l := answer.layout(i)
		l.canvas = l.rootBackground(backgrounds[i])
		for j, node := range d.Nodes.ContentDocumentIndex.Index {
			backgrounds[item(d.Nodes.ContentDocumentIndex.Value, j)] = l.frameBackdrop(item(d.Nodes.BackendNodeID, node))
		}
		byFrame[answer.string(d.FrameID)] = l
		if i == 0 {
			first = l
		}
	}
	if first == nil {
		first = &layout{}
	}
	return first, nil
}

// string returns a string, "" for -1.
func (a *layoutAnswer) string(i int) string { return item(a.Strings, i) }

// item returns an item of a list that a renderer sent, which need not have it.
func item[T any](list []T, i int) (value T) {
	if i >= 0 && i < len(list) {
		value = list[i]
	}
	return value
}

// layout returns the layout of a document.
func (a *layoutAnswer) layout(document int) *layout {
	d := &a.Documents[document]
	l := &layout{}
	boxOf := map[int]int{} // by node
	for i, node := range d.Layout.NodeIndex {
		r := item(d.Layout.Bounds, i)
		left, top := item(r, 0), item(r, 1)
		next := box{
			node: item(d.Nodes.BackendNodeID, node), name: a.string(item(d.Nodes.NodeName, node)), parent: -1,
			area: rect{left, top, left + item(r, 2), top + item(r, 3)}, order: item(d.Layout.PaintOrders, i), opacity: 1,
		}
		if i < len(d.Layout.Text) {
			next.text = a.string(d.Layout.Text[i])
		}
		for child, parent := node, item(d.Nodes.ParentIndex, node); parent >= 0 && parent < child && next.parent < 0; child, parent = parent, item(d.Nodes.ParentIndex, parent) {
			if k, ok := boxOf[parent]; ok {
				next.parent = k
			}
		}
		for _, s := range item(d.Layout.Styles, i) {
			next.styles = append(next.styles, a.string(s))
		}
		next.content = next.scrolled(item(d.Layout.OffsetRects, i), item(d.Layout.ScrollRects, i))
		l.add(next)
		if _, ok := boxOf[node]; !ok {
			boxOf[node] = i
		}
	}
	for i, value := range d.Nodes.NodeValue {
		parent := a.string(item(d.Nodes.NodeName, item(d.Nodes.ParentIndex, i)))
		if _, ok := boxOf[i]; !ok && a.string(item(d.Nodes.NodeName, i)) == "#text" && isContent(parent) {
			l.unrendered = append(l.unrendered, a.string(value))
		}
	}
	l.setRange(d.ContentWidth, d.ContentHeight, point{d.ScrollOffsetX, d.ScrollOffsetY})
	return l
}

// scrolled returns the area of the content of a box: its scroll offset and size, in CSS pixels.
func (b *box) scrolled(offsets, scroll []float64) rect {
	width := item(offsets, 2)
	if width <= 0 || len(scroll) < 4 {
		return b.area
	}
	scale := (b.area.right - b.area.left) / width
	left, top := b.area.left-scroll[0]*scale, b.area.top-scroll[1]*scale
	if b.style(styleDirection) == "rtl" {
		left -= (scroll[2] - width) * scale
	}
	return rect{left, top, left + min(scroll[2], width*maxPan)*scale, top + scroll[3]*scale}
}

// isContent reports whether the text of an element is meant to be shown.
func isContent(name string) bool {
	return !slices.Contains([]string{"SCRIPT", "STYLE", "TEMPLATE", "NOSCRIPT", "TITLE"}, name)
}

// add adds a box after its parent.
func (l *layout) add(next box) {
	if next.parent >= 0 {
		parent := &l.boxes[next.parent]
		next.opacity, next.concealed = parent.opacity, parent.concealed
	}
	if next.text == "" {
		if own, err := strconv.ParseFloat(next.style(styleOpacity), 64); err == nil {
			next.opacity *= own
		}
		next.concealed = next.concealed || hidingFilter.MatchString(next.style(styleFilter)) || hidingPath.MatchString(next.style(styleClipPath)) ||
			next.style(stylePosition) != "static" && hidesByClip(next.style(styleClip))
		if parseColor(next.style(styleBackground)).alpha > 0 || next.paintsImage() {
			l.backs = append(l.backs, len(l.boxes))
		}
	}
	l.boxes = append(l.boxes, next)
}

var (
	hidingFilter = regexp.MustCompile(`opacity\((0|0\.0\d*)\)`)
	hidingPath   = regexp.MustCompile(`^(inset\((5\d|[6-9]\d|\d{3,})|circle\(0|ellipse\(0|polygon\((0[a-z%]* 0[a-z%]*(, )?)+\))`)
	number       = regexp.MustCompile(`-?[0-9.]+`)
)

// hidesByClip reports whether a value of clip, such as rect(0px, 0px, 0px, 0px), leaves at most a pixel.
func hidesByClip(clip string) bool {
	sides := number.FindAllString(clip, -1)
	if len(sides) != 4 {
		return false
	}
	var offsets [4]float64
	for i, side := range sides {
		offsets[i], _ = strconv.ParseFloat(side, 64)
	}
	return offsets[2]-offsets[0] <= 1 || offsets[1]-offsets[3] <= 1
}

// maxPan limits what counts as reachable to the right, in widths of the viewport.
const maxPan = 4

// setRange sets the areas that can be shown.
func (l *layout) setRange(width, height float64, scroll point) {
	if len(l.boxes) == 0 {
		return
	}
	slices.SortStableFunc(l.backs, l.paintedBefore)
	view := l.boxes[0].area // of the document
	l.viewport = rect{scroll.x, scroll.y, scroll.x + view.right - view.left, scroll.y + view.bottom - view.top}
	most := max(view.right-view.left, 1) * maxPan
	l.reachable = rect{0, 0, min(width, most), height}
	if len(l.boxes) > 1 && l.boxes[1].style(styleDirection) == "rtl" {
		l.reachable.left, l.reachable.right = view.right-view.left-min(width, most), view.right-view.left
	}
}

// shownText returns the text that a person can read, in lines.
func (l *layout) shownText() string {
	var out strings.Builder
	last := -1 // the box of the block of the latest text
	for i := range l.boxes {
		b := &l.boxes[i]
		if b.text == "" || strings.HasPrefix(b.name, "::") && b.name != "::first-letter" || l.hides(i) && strings.TrimSpace(b.text) != "" {
			continue
		}
		text := b.text
		if b.name != "BR" && !strings.HasPrefix(b.style(styleSpaces), "preserve") {
			text = collapse(text)
		}
		block := l.block(i)
		if strings.TrimSpace(text) != "" && block != last {
			if last >= 0 {
				out.WriteString(l.separator(last, block))
			}
			last = block
		}
		out.WriteString(text)
	}
	return strings.TrimSpace(extraSpace.ReplaceAllString(out.String(), "$1"))
}

var (
	spaces     = regexp.MustCompile(`\s+`)
	extraSpace = regexp.MustCompile(` *(\n|\t| ) *`)
)

func collapse(text string) string { return spaces.ReplaceAllString(text, " ") }

// block returns the box of the block that contains a box.
func (l *layout) block(i int) int {
	for i = l.boxes[i].parent; i > 0; i = l.boxes[i].parent {
		if d := l.boxes[i].style(styleDisplay); d != "inline" && d != "contents" && !strings.HasPrefix(d, "ruby") {
			return i
		}
	}
	return 0
}

// separator returns what separates the texts of two blocks.
func (l *layout) separator(a, b int) string {
	first, second := &l.boxes[a], &l.boxes[b]
	switch {
	case first.parent == second.parent && first.style(styleDisplay) == "table-cell" && second.style(styleDisplay) == "table-cell":
		return "\t"
	case l.lineBlock(a) == l.lineBlock(b):
		return " "
	}
	return "\n"
}

// lineBlock returns the block whose lines contain a block, which is another one for an inline block.
func (l *layout) lineBlock(i int) int {
	for i > 0 && strings.HasPrefix(l.boxes[i].style(styleDisplay), "inline-") {
		i = l.block(i)
	}
	return i
}
