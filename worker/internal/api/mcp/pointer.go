package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/jpeg"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	dragSteps = 5
	// dragStart is how long a page may take to start a drag of its own (HTML drag and drop) after the pointer has moved.
	dragStart = 300 * time.Millisecond
)

type dragInput struct {
	onElement
	Target string `json:"target" jsonschema:"reference of the element to drop on, such as e14"`
}

type clickAtInput struct {
	onBrowser
	X      float64 `json:"x" jsonschema:"position in the latest screenshot, in its pixels from the left"`
	Y      float64 `json:"y" jsonschema:"position in the latest screenshot, in its pixels from the top"`
	Double bool    `json:"double,omitempty" jsonschema:"click twice"`
}

type dragAtInput struct {
	onBrowser
	X       float64 `json:"x" jsonschema:"position in the latest screenshot, in its pixels from the left"`
	Y       float64 `json:"y" jsonschema:"position in the latest screenshot, in its pixels from the top"`
	TargetX float64 `json:"targetX" jsonschema:"position to drop at, in pixels from the left"`
	TargetY float64 `json:"targetY" jsonschema:"position to drop at, in pixels from the top"`
}

func (s *Service) addPointerTools(server *sdk.Server) {
	addPageTool(s, server, "drag", "Drag an element of the latest snapshot onto another one.", func(ctx context.Context, p pageCall, in dragInput) (result, error) {
		target, err := p.find(ctx, p.tab, in.Target)
		if err != nil {
			return result{}, err
		}
		return p.act(ctx, in.Ref, false, func(e element) error {
			from, to, err := p.locateBoth(ctx, e, in.Ref, target, in.Target)
			if err != nil {
				return err
			}
			return p.drag(ctx, from, to)
		})
	})
	addPageTool(s, server, "click_at", "Click at a position of the latest screenshot, for what has no element in the snapshot, such as a canvas.", func(ctx context.Context, p pageCall, in clickAtInput) (result, error) {
		return p.perform(ctx, func() error {
			at, err := p.inPage(in.X, in.Y)
			if err != nil {
				return err
			}
			times := 1
			if in.Double {
				times = 2
			}
			return p.clickAt(ctx, p.tab, at, times)
		})
	})
	addPageTool(s, server, "drag_at", "Drag from one position of the latest screenshot to another one.", func(ctx context.Context, p pageCall, in dragAtInput) (result, error) {
		return p.perform(ctx, func() error {
			from, err := p.inPage(in.X, in.Y)
			if err != nil {
				return err
			}
			to, err := p.inPage(in.TargetX, in.TargetY)
			if err != nil {
				return err
			}
			return p.drag(ctx, from, to)
		})
	})
}

// locateBoth scrolls two elements into view and returns their centers.
func (p pageCall) locateBoth(ctx context.Context, source element, sourceRef string, target element, targetRef string) (from, to point, err error) {
	var again point
	for _, one := range []struct {
		element
		ref string
		at  *point
	}{{target, targetRef, &to}, {source, sourceRef, &from}, {target, targetRef, &to}, {source, sourceRef, &again}} {
		if *one.at, err = p.locate(ctx, p.tab, one.element, one.ref); err != nil {
			return from, to, err
		}
	}
	if again != from {
		return from, to, toolError(fmt.Sprintf("The elements %s and %s are not visible at the same time.", sourceRef, targetRef))
	}
	return from, to, nil
}

// picture is the size of the latest screenshot of a tab, and the CSS pixels of the page for each of its pixels.
type picture struct {
	width, height int
	scale         float64
}

// measurePicture remembers the size of a screenshot, for positions in it.
func (p pageCall) measurePicture(ctx context.Context, taken []byte) error {
	size, err := jpeg.DecodeConfig(bytes.NewReader(taken))
	if err != nil {
		return err
	}
	var metrics struct {
		CSSVisualViewport struct{ ClientWidth float64 }
	}
	if err := p.call(ctx, p.tab, "Page.getLayoutMetrics", nil, &metrics); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tab.picture = picture{size.Width, size.Height, metrics.CSSVisualViewport.ClientWidth / float64(size.Width)}
	return nil
}

// inPage returns the position in the page of a position in the latest screenshot.
func (p pageCall) inPage(x, y float64) (point, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := p.tab.picture
	if shown.scale == 0 {
		return point{}, toolError("Positions are those of the latest screenshot. Call screenshot first.")
	}
	if x < 0 || y < 0 || x >= float64(shown.width) || y >= float64(shown.height) {
		return point{}, toolError("The position is outside of the latest screenshot.")
	}
	return point{x * shown.scale, y * shown.scale}, nil
}

// drag presses the pointer at one position and releases it at another one. A page that starts a drag of its own gets
// the events of drag and drop.
func (p pageCall) drag(ctx context.Context, from, to point) error {
	dragged := make(chan json.RawMessage, 1)
	p.setDragged(dragged)
	defer p.setDragged(nil)
	if err := p.call(ctx, p.tab, "Input.setInterceptDrags", map[string]any{"enabled": true}, nil); err != nil {
		return err
	}
	defer post(p.conn, p.tab.session, "Input.setInterceptDrags", map[string]any{"enabled": false})
	if err := p.mouse(ctx, p.tab, "mouseMoved", from, 0); err != nil {
		return err
	}
	if err := p.mouse(ctx, p.tab, "mousePressed", from, 1); err != nil {
		return err
	}
	for i := 1; i <= dragSteps; i++ {
		part := float64(i) / dragSteps
		if err := p.mouse(ctx, p.tab, "mouseMoved", point{from.x + (to.x-from.x)*part, from.y + (to.y-from.y)*part}, 1); err != nil {
			return err
		}
	}
	select {
	case data := <-dragged:
		for _, kind := range []string{"dragEnter", "dragOver", "drop"} {
			params := map[string]any{"type": kind, "x": to.x, "y": to.y, "data": data}
			if err := p.call(ctx, p.tab, "Input.dispatchDragEvent", params, nil); err != nil {
				return err
			}
		}
	case <-time.After(dragStart):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return p.mouse(ctx, p.tab, "mouseReleased", to, 1)
}

// setDragged sets the channel that gets the data of a drag that the page starts.
func (p pageCall) setDragged(to chan json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tab.dragged = to
}
