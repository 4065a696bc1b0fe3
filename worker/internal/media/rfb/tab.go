package rfb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	// maxSide limits the size of pictures: some decoders of the Tight encoding have
	// buffers of this many pixels. Chromium scales larger pages down.
	maxSide = 2048

	// Chromium sends no further frame while more than two are unacknowledged, and
	// does not report dropped frames.
	framesInFlight = 3

	frameQueueSize = 16 // exceeds framesInFlight
)

type frameEvent = cdp.Event

// tab is a separate connection to one page: sessions on the worker's control pipe
// would get the launch's emulation settings.
type tab struct {
	browser      *debugger
	id           string
	conn         *cdp.Conn
	subscription *cdp.Subscription
	sessionID    int
	unacked      int
}

// metrics describe the position of a picture on its page, in CSS pixels.
type metrics struct {
	OffsetTop    float64
	DeviceWidth  float64
	DeviceHeight float64
}

// open connects to a page and starts its screencast.
func (d *debugger) open(ctx context.Context, id string) (*tab, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := d.connect(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("screencast: %w", err)
	}
	t := &tab{browser: d, id: id, conn: conn}
	t.subscription = t.conn.Subscribe(frameQueueSize, "Page.screencastFrame")
	start := map[string]any{"format": "jpeg", "quality": 70, "maxWidth": d.maxWidth, "maxHeight": maxSide}
	if err := t.conn.Call(ctx, "", "Page.startScreencast", start, nil); err != nil {
		t.close()
		return nil, fmt.Errorf("screencast: %w", err)
	}
	t.forceFrame(ctx) // otherwise the first frame of a still page takes half a second
	return t, nil
}

// connect connects to a page, or to a frame with a process of its own.
func (d *debugger) connect(ctx context.Context, id string) (*cdp.Conn, error) {
	socket, err := ws.Dial(ctx, "ws://"+d.address+"/devtools/page/"+id, nil, ws.Options{DialContext: d.dial})
	if err != nil {
		return nil, err
	}
	return cdp.OverWebSocket(socket), nil
}

func (t *tab) close() { _ = t.conn.Close() }

func (t *tab) frames() <-chan frameEvent { return t.subscription.Events() }

// forceFrame makes Chromium draw the page and send a frame even if nothing changes.
func (t *tab) forceFrame(ctx context.Context) {
	shot := map[string]any{"format": "jpeg", "quality": 1, "optimizeForSpeed": true}
	if reply, err := t.conn.Send(ctx, "", "Page.captureScreenshot", shot); err == nil {
		reply.Discard()
	}
}

// decode decodes the event of a frame.
func (t *tab) decode(params []byte) (picture, error) {
	var frame struct {
		Data      []byte
		SessionID int
		Metadata  metrics
	}
	if err := json.Unmarshal(params, &frame); err != nil {
		return picture{}, fmt.Errorf("frame: %w", err)
	}
	t.sessionID = frame.SessionID
	t.unacked++
	config, err := jpeg.DecodeConfig(bytes.NewReader(frame.Data))
	if err != nil {
		return picture{}, fmt.Errorf("frame: %w", err)
	}
	if config.Width > maxSide || config.Height > maxSide {
		return picture{}, errors.New("frame: larger than the requested size")
	}
	return picture{jpeg: frame.Data, size: image.Pt(config.Width, config.Height), metrics: frame.Metadata, tab: t}, nil
}

// atFrameLimit reports whether Chromium sends no frame before an acknowledgement.
func (t *tab) atFrameLimit() bool { return t.unacked >= framesInFlight }

// acknowledgeFrames acknowledges the received frames.
func (t *tab) acknowledgeFrames(ctx context.Context) error {
	for ; t.unacked > 0; t.unacked-- {
		reply, err := t.conn.Send(ctx, "", "Page.screencastFrameAck", map[string]any{"sessionId": t.sessionID})
		if err != nil {
			return ctx.Err() // the end of the page is handled elsewhere
		}
		reply.Discard()
	}
	return nil
}
