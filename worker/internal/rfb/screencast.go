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
	firstFrame = 3 * time.Second        // how long a first picture is waited for
	settle     = 150 * time.Millisecond // after which a page is taken to be still
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
		browser: b, conn: ours, viewer: newViewer(), hand: newHand(),
		shown: make(chan string), poke: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.begin(ctx, id)
	s.run(access)
	finish := func() {
		s.cancel()
		s.loops.Wait()
	}
	return &Upstream{conn: theirs, init: serverInit(s.size), finish: finish}, nil
}

type screencast struct {
	browser *debugger
	conn    net.Conn // the server's end
	viewer  *viewer
	hand    *hand
	shown   chan string   // the page to show, "" for none, now and then
	poke    chan struct{} // asks for the next one now
	ctx     context.Context
	cancel  context.CancelFunc
	loops   sync.WaitGroup

	// Of the drawing loop alone.
	tab     *tab // nil: no page
	picture picture
	fresh   bool        // the client has not seen the picture
	size    image.Point // of the framebuffer, as the client knows it
	lagging bool        // Chromium may have withheld the last picture
}

// begin shows the page, or that there is none, for the client to start with.
func (s *screencast) begin(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, firstFrame)
	defer cancel()
	s.show(ctx, id)
	if s.tab != nil {
		select {
		case f, ok := <-s.tab.frames():
			if ok {
				s.take(f.Params)
			}
		case <-ctx.Done():
		}
	}
	if s.picture.jpeg == nil {
		s.blank()
	}
	s.size = s.picture.size
}

func (s *screencast) run(access Access) {
	s.loops.Go(s.draw)
	s.loops.Go(func() {
		defer s.cancel()
		s.viewer.read(s.conn, func(message any) {
			if access == Control {
				s.hand.give(message)
			}
		})
	})
	s.loops.Go(func() { s.hand.work(s.ctx) })
	s.loops.Go(func() {
		defer s.cancel() // without the browser there is nothing to show
		s.browser.follow(s.ctx, s.shown, s.poke)
	})
	context.AfterFunc(s.ctx, func() { s.conn.Close() })
}

// draw sends pictures for as long as there is somebody to see them.
func (s *screencast) draw() {
	defer s.leave()
	for s.ctx.Err() == nil {
		var frames <-chan frameEvent
		var still <-chan time.Time
		if s.tab != nil {
			frames = s.tab.frames()
		}
		if s.lagging && !s.fresh {
			still = time.After(settle)
		}
		select {
		case f, ok := <-frames:
			if ok {
				s.take(f.Params)
			} else { // the page is closed
				s.leave()
				s.hurry()
			}
		case id := <-s.shown:
			s.show(s.ctx, id)
		case <-s.viewer.asked:
		case <-still:
			s.refresh()
		case <-s.ctx.Done():
		}
		if s.send() != nil {
			return
		}
	}
}

// take makes a frame the picture to show.
func (s *screencast) take(params []byte) {
	p, err := s.tab.decode(params)
	if err != nil {
		return
	}
	s.lagging = s.tab.full()
	s.picture, s.fresh = p, true
}

// refresh makes up for what Chromium threw away while its frames were not
// taken: it never sends that again by itself.
func (s *screencast) refresh() {
	s.lagging = false
	if s.tab != nil {
		s.tab.nudge(s.ctx)
	}
}

// show turns to a page. The last picture stays until that has one.
func (s *screencast) show(ctx context.Context, id string) {
	if s.tab != nil && s.tab.id == id {
		return
	}
	s.leave()
	if id == "" {
		if s.picture.of != nil {
			s.blank()
		}
		return
	}
	if tab, err := s.browser.open(ctx, id); err == nil { // else it is asked for again
		s.tab = tab
	}
}

func (s *screencast) blank() { s.picture, s.fresh = noPage(), true }

func (s *screencast) leave() {
	s.hand.aim(nil)
	s.lagging = false
	if s.tab != nil {
		s.tab.close()
		s.tab = nil
	}
}

// hurry asks for the page to show without waiting for its time.
func (s *screencast) hurry() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// send answers the client's request if there is one and something to see. A
// frame counts as received, and Chromium makes another, only then.
func (s *screencast) send() error {
	wanted, again := s.viewer.wants()
	if !wanted || (!s.fresh && !again) {
		return nil
	}
	format, resizes, tight := s.viewer.likes()
	s.viewer.served()
	if s.size != s.picture.size && resizes {
		s.size = s.picture.size
		s.fresh = true
		_, err := s.conn.Write(resizeUpdate(s.size))
		return err
	}
	update, err := s.picture.update(s.size, format, tight)
	if err != nil { // not a picture after all; the next one will be
		s.fresh = false
		return nil
	}
	if _, err := s.conn.Write(update); err != nil {
		return err
	}
	s.fresh = false
	if s.tab != nil && s.picture.of == s.tab {
		s.hand.aim(&target{conn: s.tab.conn, metrics: s.picture.metrics, from: s.size})
		return s.tab.acknowledge(s.ctx)
	}
	return nil
}
