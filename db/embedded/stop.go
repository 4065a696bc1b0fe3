package embedded

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Stop stops the server and releases the data directory. It starts with a fast
// shutdown, continues with an immediate shutdown after ten seconds or when ctx ends,
// and kills the server three seconds later. No committed data is lost. Further calls
// return the result of the first one.
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
	graceful, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.cmd.Process.Signal(syscall.SIGINT)
	if s.waitExit(graceful) {
		return s.dataDir.stopLeftovers(context.WithoutCancel(ctx))
	}
	s.cmd.Process.Signal(syscall.SIGQUIT)
	forced, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if !s.waitExit(forced) {
		s.cmd.Process.Signal(os.Kill)
		<-s.done
	}
	err := s.dataDir.stopLeftovers(context.WithoutCancel(ctx))
	return errors.Join(errors.New("PostgreSQL did not stop in time and was terminated; the next start recovers its data"), err)
}

func (s *Server) waitExit(ctx context.Context) bool {
	select {
	case <-s.done:
		return true
	case <-ctx.Done():
		return false
	}
}
