package auth

import (
	"context"
	"fmt"
	"sync"
)

// lines let the clients of one network check or hash one password at a time.
// However many come at once, all but the first find what those before have
// counted; and they wait for one another, not the rest of the world for them.
type lines struct {
	mu sync.Mutex
	of map[string]*line // by network; only those that somebody stands in
}

type line struct {
	turn  chan struct{}
	stand int // how many stand in it, the first included
}

// enter waits for the network's turn, which is over when leave is called.
func (l *lines) enter(ctx context.Context, network string) (leave func(), err error) {
	mine := l.join(network)
	select {
	case mine.turn <- struct{}{}:
		return func() {
			<-mine.turn
			l.part(network)
		}, nil
	case <-ctx.Done():
		l.part(network)
		return nil, fmt.Errorf("wait in line to check a password: %w", ctx.Err())
	}
}

func (l *lines) join(network string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[network] == nil {
		l.of[network] = &line{turn: make(chan struct{}, 1)}
	}
	l.of[network].stand++
	return l.of[network]
}

func (l *lines) part(network string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[network].stand--; l.of[network].stand == 0 {
		delete(l.of, network)
	}
}

// inTurn does work that takes a password's time, in the turn of the client's
// network, unless one of the subjects must pause (RateLimited). It must count
// what it finds before it ends.
func (s *Service) inTurn(ctx context.Context, client Client, subjects []subject, work func() error) error {
	leave, err := s.lines.enter(ctx, client.network())
	if err != nil {
		return err
	}
	defer leave()
	if err := s.attempts.look(ctx, subjects...); err != nil {
		return err
	}
	return work()
}
