package embedded

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Stop ends the server and gives the data directory up: a fast shutdown, which
// breaks connections and leaves clean data; after ten seconds, or when ctx
// ends, an immediate one; three seconds later by force. The data is safe in
// each case. Further calls return what the first did.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		began := time.Now()
		s.stopErr = s.shutDown(ctx)
		s.dataDir.close()
		s.logger.InfoContext(ctx, "embedded database stopped", "duration", time.Since(began))
	})
	return s.stopErr
}

func (s *Server) shutDown(ctx context.Context) error {
	s.stopping.Store(true)
	polite, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.cmd.Process.Signal(syscall.SIGINT)
	if s.waitExit(polite) {
		return s.dataDir.stopLeftovers(context.WithoutCancel(ctx))
	}
	s.cmd.Process.Signal(syscall.SIGQUIT)
	firm, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if !s.waitExit(firm) {
		s.cmd.Process.Signal(os.Kill)
		<-s.done
	}
	err := s.dataDir.stopLeftovers(context.WithoutCancel(ctx))
	return errors.Join(errors.New("the PostgreSQL server had to be stopped at once; the next start recovers"), err)
}

func (s *Server) waitExit(ctx context.Context) bool {
	select {
	case <-s.done:
		return true
	case <-ctx.Done():
		return false
	}
}
