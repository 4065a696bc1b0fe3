package mcp

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	minHeight   = 4    // pixels of a text, of the screen, that can be noticed
	minWidth    = 4    // likewise, unless the text itself is as narrow
	minFont     = 3    // pixels of a font that can be read
	minOpacity  = 0.1  // of a text that can be noticed
	minContrast = 16   // between text and background, of 255, in the channel that differs most
	minHidden   = 8    // characters of a text without a box that marks a name
	maxOpaque   = 0.99 // opacity from which a background hides what is behind it
)

// paint is a color. It is unknown for pictures, gradients and colors of other spaces than sRGB.
type paint struct {
	known   bool
	r, g, b float64 // 0 to 255
	alpha   float64
}

// white is the background of pages that have none.
var white = paint{known: true, r: 255, g: 255, b: 255, alpha: 1}

// parseColor reads a computed color, such as rgba(255, 0, 0, 0.5).
func parseColor(text string) paint {
	parts := number.FindAllString(text, -1)
	if !strings.HasPrefix(text, "rgb") || len(parts) < 3 {
		return paint{alpha: 1}
	}
	value := [4]float64{3: 1}
	for i, part := range parts[:min(len(parts), 4)] {
		value[i], _ = strconv.ParseFloat(part, 64)
	}
	return paint{known: true, r: value[0], g: value[1], b: value[2], alpha: value[3]}
}

// blend returns the color of a paint with an additional opacity in front of another one.
func (p paint) blend(back paint, opacity float64) paint {
	a := p.alpha * opacity
	if !p.known || !back.known && a < maxOpaque {
		return paint{}
	}
	mix := func(front, behind float64) float64 { return front*a + behind*(1-a) }
	return paint{known: true, r: mix(p.r, back.r), g: mix(p.g, back.g), b: mix(p.b, back.b), alpha: 1}
}

// isLike reports whether two known colors can hardly be distinguished.
func (p paint) isLike(other paint) bool {
	return p.known && other.known && max(math.Abs(p.r-other.r), math.Abs(p.g-other.g), math.Abs(p.b-other.b)) < minContrast
}

// paintsImage reports whether a box paints something other than a color.
func (b *box) paintsImage() bool {
	switch b.name {
	case "IMG", "CANVAS", "VIDEO", "EMBED", "OBJECT", "svg", "image":
		return true
	}
	image := b.style(styleImage)
	return image != "" && image != "none" && b.style(styleBackgroundClip) != "text"
}

// rootBackground returns what is behind the root element: its background, that of the body, or
// what is behind the frame.
func (l *layout) rootBackground(backdrop paint) paint {
	if len(l.boxes) > 1 && strings.Contains(l.boxes[1].style(styleScheme), "dark") {
		backdrop = paint{}
	}
	for i := range l.boxes {
		b := &l.boxes[i]
		if b.name != "HTML" && b.name != "BODY" {
			continue
		}
		if b.paintsImage() {
			return paint{}
		}
		if c := parseColor(b.style(styleBackground)); c.alpha > 0 {
			return c.blend(backdrop, 1)
		}
		if b.name == "BODY" {
			break
		}
	}
	return backdrop
}

// paintedBefore compares two boxes by when they are painted.
func (l *layout) paintedBefore(i, k int) int {
	return cmp.Or(cmp.Compare(l.boxes[i].order, l.boxes[k].order), cmp.Compare(i, k))
}

// frameBackdrop returns what is painted behind a frame, by the node of its owner.
func (l *layout) frameBackdrop(owner int) paint {
	i := slices.IndexFunc(l.boxes, func(b box) bool { return b.node == owner })
	if i < 0 {
		return paint{}
	}
	return l.background(i, l.boxes[i].area.center())
}

// background returns what is painted behind a box at a position.
func (l *layout) background(front int, position point) paint {
	backdrop := l.canvas
	for _, i := range l.backs {
		b := &l.boxes[i]
		if !b.area.contains(position) || l.paintedBefore(front, i) < 0 || b.concealed || b.opacity == 0 || b.style(styleVisibility) != "visible" || !l.shownArea(i).contains(position) {
			continue
		}
		if b.paintsImage() {
			backdrop = paint{}
			continue
		}
		backdrop = parseColor(b.style(styleBackground)).blend(backdrop, b.opacity)
	}
	return backdrop
}

// shownArea returns the part of a box that ancestors do not clip and that scrolling reaches.
func (l *layout) shownArea(i int) rect {
	area := l.boxes[i].area
	position := "" // of a box whose containing block is not found yet
	if l.boxes[i].text == "" {
		position = l.boxes[i].style(stylePosition)
	}
	fixed := position == "fixed"
	for i = l.boxes[i].parent; i > 0; i = l.boxes[i].parent {
		b := &l.boxes[i]
		own := b.style(stylePosition)
		hasTransform := b.style(styleTransform) != "none" && b.style(styleTransform) != ""
		if position == "fixed" && !hasTransform || position == "absolute" && own == "static" && !hasTransform {
			continue
		}
		position = own
		fixed = own == "fixed"
		switch overflow := b.style(styleOverflow); {
		case b.name == "HTML" || b.name == "BODY" || overflow == "visible" || b.style(styleDisplay) == "inline":
		case overflow == "auto" || overflow == "scroll":
			if area = area.intersect(b.content); area.left < area.right && area.top < area.bottom {
				area = b.area
			}
		default:
			area = area.intersect(b.area)
		}
	}
	if fixed {
		return area.intersect(l.viewport)
	}
	return area.intersect(l.reachable)
}

// hides reports whether a person cannot see a box.
func (l *layout) hides(i int) bool {
	b := &l.boxes[i]
	if b.concealed || b.opacity < minOpacity || b.style(styleVisibility) == "hidden" || b.style(styleVisibility) == "collapse" {
		return true
	}
	area := l.shownArea(i)
	width, height := area.right-area.left, area.bottom-area.top
	if b.text == "" { // without a size of its own, what is in it can be visible nevertheless
		own := b.area.right > b.area.left && b.area.bottom > b.area.top
		hasContent := i+1 < len(l.boxes) && l.boxes[i+1].parent == i && b.style(styleOverflow) == "visible"
		return (width <= 0 || height <= 0) && (own || !hasContent)
	}
	if height < minHeight || width <= 0 || width < min(minWidth, (b.area.right-b.area.left)/2) {
		return true
	}
	if size, err := strconv.ParseFloat(strings.TrimSuffix(b.style(styleFontSize), "px"), 64); err == nil && size < minFont {
		return true
	}
	for k := b.parent; k > 0; k = l.boxes[k].parent {
		if l.boxes[k].style(styleBackgroundClip) == "text" {
			return false // its color is the background
		}
	}
	color := parseColor(b.style(styleColor))
	if color.alpha*b.opacity < minOpacity {
		return true
	}
	backdrop := l.background(i, area.center())
	return color.blend(backdrop, b.opacity).isLike(backdrop)
}

// hiddenNodes are the nodes of a document that a person cannot see.
type hiddenNodes struct {
	nodes map[int]bool // backend DOM nodes
	texts []string     // hidden texts, for names that consist of them
}

// hidden returns the nodes that a person cannot see.
func (l *layout) hidden() hiddenNodes {
	h := hiddenNodes{nodes: map[int]bool{}}
	if l == nil {
		return h
	}
	texts := l.unrendered
	for i := range l.boxes {
		b := &l.boxes[i]
		if strings.TrimSpace(b.text) == "" && b.text != "" || !l.hides(i) {
			continue
		}
		h.nodes[b.node] = true
		if b.text != "" {
			texts = append(texts, b.text)
		}
	}
	for _, text := range texts {
		if text = strings.TrimSpace(collapse(text)); len(text) >= minHidden {
			h.texts = append(h.texts, text)
		}
	}
	return h
}

// matches reports whether a name contains one of the hidden texts.
func (h hiddenNodes) matches(name string) bool {
	for _, text := range h.texts {
		if strings.Contains(name, text) {
			return true
		}
	}
	return false
}
