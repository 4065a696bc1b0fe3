package rfb

import (
	"context"
	"fmt"
	"image"
	"net"
	"sync"
	"time"
)

const (
	firstFrameTimeout = 3 * time.Second        // timeout of the first picture
	settleDelay       = 150 * time.Millisecond // a page without a new frame for this long counts as still
)

// Screencast starts an RFB server for a headless browser, which shows a screencast
// of the most recently active page. It serves one client, that of the Upstream.
//
// With Watch access, input has no effect even without a filter. Ctrl+V inserts the
// client's clipboard until Ctrl+C or Ctrl+X copies text in the browser, which is then sent
// to the client's clipboard. ctx bounds only the setup.
func Screencast(ctx context.Context, server DevTools, access Access) (*Upstream, error) {
	return startScreencast(ctx, newDebugger(server), access)
}

// SmallScreencast is Screencast without input and with pictures of at most this width.
func SmallScreencast(ctx context.Context, server DevTools, maxWidth int) (*Upstream, error) {
	b := newDebugger(server)
	b.maxWidth = min(maxWidth, maxSide)
	return startScreencast(ctx, b, Watch)
}

func startScreencast(ctx context.Context, b *debugger, access Access) (*Upstream, error) {
	id, err := b.activePage(ctx)
	if err != nil {
		return nil, fmt.Errorf("screencast: %w", err)
	}
	ours, theirs := net.Pipe()
	client := newClientState()
	s := &screencast{
		browser: b, conn: ours, client: client, input: newInputDispatcher(client.sendText),
		pageChanges: make(chan string), pollNow: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.start(ctx, id)
	s.run(access)
	finish := func() {
		s.cancel()
		s.loops.Wait()
	}
	return &Upstream{conn: theirs, init: serverInit(s.size), finish: finish}, nil
}

type screencast struct {
	browser     *debugger
	conn        net.Conn // the server's end
	client      *clientState
	input       *inputDispatcher
	pageChanges chan string   // the page to show, "" for none; sent periodically
	pollNow     chan struct{} // requests an immediate check
	ctx         context.Context
	cancel      context.CancelFunc
	loops       sync.WaitGroup

	// Used only by drawLoop.
	tab     *tab // nil: no page
	picture picture
	unsent  bool        // the picture was not sent to the client
	size    image.Point // size of the framebuffer that the client knows
	lagging bool        // Chromium may have dropped the last frame
}

// start sets the first picture: the page, or the picture for no page.
func (s *screencast) start(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, firstFrameTimeout)
	defer cancel()
	s.switchTo(ctx, id)
	if s.tab != nil {
		select {
		case f, ok := <-s.tab.frames():
			if ok {
				s.setPicture(f.Params)
			}
		case <-ctx.Done():
		}
	}
	if s.picture.jpeg == nil {
		s.showNoPage()
	}
	s.size = s.picture.size
}

func (s *screencast) run(access Access) {
	s.loops.Go(s.drawLoop)
	s.loops.Go(func() {
		defer s.cancel()
		s.client.readMessages(s.conn, func(message any) {
			if access == Control {
				s.input.enqueue(message)
			}
		})
	})
	s.loops.Go(func() { s.input.run(s.ctx) })
	s.loops.Go(func() {
		defer s.cancel() // ends the screencast with the browser
		s.browser.watchActivePage(s.ctx, s.pageChanges, s.pollNow)
	})
	context.AfterFunc(s.ctx, func() { s.conn.Close() })
}

// drawLoop sends pictures until the client disconnects.
func (s *screencast) drawLoop() {
	defer s.closeTab()
	for s.ctx.Err() == nil {
		var frames <-chan frameEvent
		var still <-chan time.Time
		if s.tab != nil {
			frames = s.tab.frames()
		}
		if s.lagging && !s.unsent {
			still = time.After(settleDelay)
		}
		select {
		case f, ok := <-frames:
			if ok {
				s.setPicture(f.Params)
			} else { // the page is closed
				s.closeTab()
				s.requestPoll()
			}
		case id := <-s.pageChanges:
			s.switchTo(s.ctx, id)
		case <-s.client.requested:
		case <-still:
			s.requestFrame()
		case <-s.ctx.Done():
		}
		if s.sendClipboard() != nil || s.sendUpdate() != nil {
			return
		}
	}
}

// setPicture sets the picture from a frame.
func (s *screencast) setPicture(params []byte) {
	p, err := s.tab.decode(params)
	if err != nil {
		return
	}
	s.lagging = s.tab.atFrameLimit()
	s.picture, s.unsent = p, true
}

// requestFrame requests a new frame if Chromium may have dropped one because of
// unacknowledged frames: Chromium does not send a dropped frame later.
func (s *screencast) requestFrame() {
	s.lagging = false
	if s.tab != nil {
		s.tab.forceFrame(s.ctx)
	}
}

// switchTo switches to a page. The last picture stays until the page has a frame.
func (s *screencast) switchTo(ctx context.Context, id string) {
	if s.tab != nil && s.tab.id == id {
		return
	}
	s.closeTab()
	if id == "" {
		if s.picture.tab != nil {
			s.showNoPage()
		}
		return
	}
	if tab, err := s.browser.open(ctx, id); err == nil { // otherwise the next poll retries
		s.tab = tab
	}
}

func (s *screencast) showNoPage() { s.picture, s.unsent = noPage(), true }

func (s *screencast) closeTab() {
	s.input.setTarget(nil)
	s.lagging = false
	if s.tab != nil {
		s.tab.close()
		s.tab = nil
	}
}

// requestPoll requests an immediate check of the active page.
func (s *screencast) requestPoll() {
	select {
	case s.pollNow <- struct{}{}:
	default:
	}
}

func (s *screencast) sendClipboard() error {
	m := s.client.clipboardMessages()
	if len(m) == 0 {
		return nil
	}
	_, err := s.conn.Write(m)
	return err
}

// sendUpdate answers a pending request if there is an unsent picture. Only then the
// frame is acknowledged, and Chromium sends another one.
func (s *screencast) sendUpdate() error {
	requested, again := s.client.pendingRequest()
	if !requested || (!s.unsent && !again) {
		return nil
	}
	format, resizes, tight := s.client.preferences()
	s.client.requestServed()
	if s.size != s.picture.size && resizes {
		s.size = s.picture.size
		s.unsent = true
		_, err := s.conn.Write(resizeUpdate(s.size))
		return err
	}
	update, err := s.picture.update(s.size, format, tight)
	if err != nil { // an invalid picture is skipped
		s.unsent = false
		return nil
	}
	if _, err := s.conn.Write(update); err != nil {
		return err
	}
	s.unsent = false
	if s.tab != nil && s.picture.tab == s.tab {
		s.input.setTarget(&target{tab: s.tab, metrics: s.picture.metrics, framebuffer: s.size})
		return s.tab.acknowledgeFrames(s.ctx)
	}
	return nil
}
