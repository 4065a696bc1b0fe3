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
	firstFrameTimeout = 3 * time.Second        // how long a first picture is waited for
	settleDelay       = 150 * time.Millisecond // after which a page is taken to be still
)

// Screencast is an RFB server for a headless browser, fed by the screencast of
// the page that was active last. It listens to one client, the Upstream's.
//
// debugPort is the browser's DevTools port on the loopback. With Watch access
// input has no effect, even what passes no filter. The client's clipboard is
// inserted by Ctrl+V until Ctrl+C or Ctrl+X gives the browser one of its own;
// that one stays in the browser. The context bounds the set-up only.
func Screencast(ctx context.Context, debugPort int, access Access) (*Upstream, error) {
	b := newDebugger(debugPort)
	id, err := b.activePage(ctx)
	if err != nil {
		return nil, fmt.Errorf("screencast: %w", err)
	}
	ours, theirs := net.Pipe()
	s := &screencast{
		browser: b, conn: ours, client: newClientState(), input: newInputDispatcher(),
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
	pageChanges chan string   // the page to show, "" for none, now and then
	pollNow     chan struct{} // asks for the next one now
	ctx         context.Context
	cancel      context.CancelFunc
	loops       sync.WaitGroup

	// Of the drawing loop alone.
	tab     *tab // nil: no page
	picture picture
	unsent  bool        // the client has not seen the picture
	size    image.Point // of the framebuffer, as the client knows it
	lagging bool        // Chromium may have withheld the last picture
}

// start shows the page, or that there is none, for the client to start with.
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
		defer s.cancel() // without the browser there is nothing to show
		s.browser.watchActivePage(s.ctx, s.pageChanges, s.pollNow)
	})
	context.AfterFunc(s.ctx, func() { s.conn.Close() })
}

// drawLoop sends pictures for as long as there is somebody to see them.
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
		if s.sendUpdate() != nil {
			return
		}
	}
}

// setPicture makes a frame the picture to show.
func (s *screencast) setPicture(params []byte) {
	p, err := s.tab.decode(params)
	if err != nil {
		return
	}
	s.lagging = s.tab.atFrameLimit()
	s.picture, s.unsent = p, true
}

// requestFrame makes up for what Chromium threw away while its frames were not
// taken: it never sends that again by itself.
func (s *screencast) requestFrame() {
	s.lagging = false
	if s.tab != nil {
		s.tab.forceFrame(s.ctx)
	}
}

// switchTo turns to a page. The last picture stays until that has one.
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
	if tab, err := s.browser.open(ctx, id); err == nil { // else it is asked for again
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

// requestPoll asks for the page to show without waiting for its time.
func (s *screencast) requestPoll() {
	select {
	case s.pollNow <- struct{}{}:
	default:
	}
}

// sendUpdate answers the client's request if there is one and something to see. A
// frame counts as received, and Chromium makes another, only then.
func (s *screencast) sendUpdate() error {
	wanted, again := s.client.pendingRequest()
	if !wanted || (!s.unsent && !again) {
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
	if err != nil { // not a picture after all; the next one will be
		s.unsent = false
		return nil
	}
	if _, err := s.conn.Write(update); err != nil {
		return err
	}
	s.unsent = false
	if s.tab != nil && s.picture.tab == s.tab {
		s.input.setTarget(&target{conn: s.tab.conn, metrics: s.picture.metrics, from: s.size})
		return s.tab.acknowledgeFrames(s.ctx)
	}
	return nil
}
