package interaction_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/interaction"
)

// TestWatchers_ShareConnection follows a browser twice: the connection is opened once, and
// closed when the last follower has left.
func TestWatchers_ShareConnection(t *testing.T) {
	u, site := newWatched(t), newSite(t)
	u.open(site + "/next")
	var watchers interaction.Watchers
	var opened atomic.Int32
	var last atomic.Pointer[cdp.Conn]
	follow := func(add func(interaction.Action)) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_ = watchers.Follow(ctx, "one", func(context.Context) (*cdp.Conn, error) {
				opened.Add(1)
				last.Store(u.connect())
				return last.Load(), nil
			}, interaction.Follower{Ready: func() { close(ready) }, Begin: func(interaction.Kind) func(interaction.Action) { return add }})
		}()
		<-ready
		return func() { cancel(); <-ended }
	}
	var first atomic.Int32
	leaveFirst := follow(func(interaction.Action) { first.Add(1) })
	leaveSecond := follow(func(a interaction.Action) { u.actions <- a })
	u.begin("back", `click button "Go back"`)
	if first.Load() == 0 || opened.Load() != 1 {
		t.Errorf("the first follower got %d actions over %d connections", first.Load(), opened.Load())
	}
	leaveFirst()
	before := first.Load()
	u.click("back")
	u.next()
	if first.Load() != before {
		t.Error("a follower that has left gets actions")
	}
	leaveSecond()
	select {
	case <-last.Load().Done():
	case <-time.After(10 * time.Second):
		t.Error("the connection is open without followers")
	}
	leave := follow(func(a interaction.Action) { u.actions <- a })
	u.begin("back", `click button "Go back"`)
	leave()
	if opened.Load() != 2 {
		t.Errorf("%d connections were opened", opened.Load())
	}
}

// TestWatchers_ReturnWithConnection ends the connection of two followers.
func TestWatchers_ReturnWithConnection(t *testing.T) {
	u := newWatched(t)
	var watchers interaction.Watchers
	conn := u.connect()
	ready, ended := make(chan struct{}, 2), make(chan error, 2)
	for range 2 {
		go func() {
			f := interaction.Follower{Ready: func() { ready <- struct{}{} }, Begin: func(interaction.Kind) func(interaction.Action) { return func(interaction.Action) {} }}
			ended <- watchers.Follow(t.Context(), "one", func(context.Context) (*cdp.Conn, error) { return conn, nil }, f)
		}()
	}
	<-ready
	<-ready
	_ = conn.Close()
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("no error")
		}
	}
}
