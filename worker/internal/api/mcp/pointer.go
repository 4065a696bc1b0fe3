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
	addPageTool(s, server, "drag", "Drag an element of the latest snapshot onto another one.", func(ctx context.Context, p pageCall, input dragInput) (result, error) {
		target, err := p.find(ctx, p.tab, input.Target)
		if err != nil {
			return result{}, err
		}
		return p.act(ctx, input.Ref, false, func(e element) error {
			start, end, err := p.locateBoth(ctx, e, input.Ref, target, input.Target)
			if err != nil {
				return err
			}
			return p.drag(ctx, start, end)
		})
	})
	addPageTool(s, server, "click_at", "Click at a position of the latest screenshot, for what has no element in the snapshot, such as a canvas.", func(ctx context.Context, p pageCall, input clickAtInput) (result, error) {
		return p.perform(ctx, func() error {
			position, err := p.inPage(input.X, input.Y)
			if err != nil {
				return err
			}
			times := 1
			if input.Double {
				times = 2
			}
			return p.clickAt(ctx, p.tab, position, times)
		})
	})
	addPageTool(s, server, "drag_at", "Drag from one position of the latest screenshot to another one.", func(ctx context.Context, p pageCall, input dragAtInput) (result, error) {
		return p.perform(ctx, func() error {
			start, err := p.inPage(input.X, input.Y)
			if err != nil {
				return err
			}
			end, err := p.inPage(input.TargetX, input.TargetY)
			if err != nil {
				return err
			}
			return p.drag(ctx, start, end)
		})
	})
}

// locateBoth scrolls two elements into view and returns their centers.
func (p pageCall) locateBoth(ctx context.Context, source element, sourceRef string, target element, targetRef string) (start, end point, err error) {
	var again point
	for _, entry := range []struct {
		element
		ref    string
		center *point
	}{{target, targetRef, &end}, {source, sourceRef, &start}, {target, targetRef, &end}, {source, sourceRef, &again}} {
		if *entry.center, err = p.locate(ctx, p.tab, entry.element, entry.ref); err != nil {
			return start, end, err
		}
	}
	if again != start {
		return start, end, toolError(fmt.Sprintf("The elements %s and %s are not visible at the same time.", sourceRef, targetRef))
	}
	return start, end, nil
}

// picture is the size of the latest screenshot of a tab, and the CSS pixels of the page for each of its pixels.
type picture struct {
	width, height int
	scale         float64
}

// measurePicture remembers the size of a screenshot, for positions in it.
func (p pageCall) measurePicture(ctx context.Context, image []byte) error {
	size, err := jpeg.DecodeConfig(bytes.NewReader(image))
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
	latest := p.tab.picture
	if latest.scale == 0 {
		return point{}, toolError("Positions are those of the latest screenshot. Call screenshot first.")
	}
	if x < 0 || y < 0 || x >= float64(latest.width) || y >= float64(latest.height) {
		return point{}, toolError("The position is outside of the latest screenshot.")
	}
	return point{x * latest.scale, y * latest.scale}, nil
}

// drag presses the pointer at one position and releases it at another one. A page that starts a drag of its own gets
// the events of drag and drop.
func (p pageCall) drag(ctx context.Context, start, end point) error {
	dragged := make(chan json.RawMessage, 1)
	p.setDragged(dragged)
	defer p.setDragged(nil)
	if err := p.call(ctx, p.tab, "Input.setInterceptDrags", map[string]any{"enabled": true}, nil); err != nil {
		return err
	}
	defer post(p.conn, p.tab.session, "Input.setInterceptDrags", map[string]any{"enabled": false})
	if err := p.mouse(ctx, p.tab, "mouseMoved", start, 0); err != nil {
		return err
	}
	if err := p.mouse(ctx, p.tab, "mousePressed", start, 1); err != nil {
		return err
	}
	for i := 1; i <= dragSteps; i++ {
		part := float64(i) / dragSteps
		if err := p.mouse(ctx, p.tab, "mouseMoved", point{start.x + (end.x-start.x)*part, start.y + (end.y-start.y)*part}, 1); err != nil {
			return err
		}
	}
	select {
	case data := <-dragged:
		for _, kind := range []string{"dragEnter", "dragOver", "drop"} {
			params := map[string]any{"type": kind, "x": end.x, "y": end.y, "data": data}
			if err := p.call(ctx, p.tab, "Input.dispatchDragEvent", params, nil); err != nil {
				return err
			}
		}
	case <-time.After(dragStart):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return p.mouse(ctx, p.tab, "mouseReleased", end, 1)
}

// setDragged sets the channel that gets the data of a drag that the page starts.
func (p pageCall) setDragged(data chan json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tab.dragged = data
}
