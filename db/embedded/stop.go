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
		s.stop()
		<-s.done
		s.stopErr = s.shutDown(ctx)
		s.dataDir.close()
		s.logger.InfoContext(ctx, "embedded database stopped", "duration", time.Since(began))
	})
	return s.stopErr
}

// shutDown stops the current postmaster. The server must not be supervised any more.
func (s *Server) shutDown(ctx context.Context) error {
	current := s.current.Load()
	if current == nil {
		return nil
	}
	graceful, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	current.cmd.Process.Signal(syscall.SIGINT)
	if current.waitExit(graceful) {
		return s.dataDir.stopLeftovers(context.WithoutCancel(ctx))
	}
	current.cmd.Process.Signal(syscall.SIGQUIT)
	forced, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if !current.waitExit(forced) {
		current.cmd.Process.Signal(os.Kill)
		<-current.exited
	}
	err := s.dataDir.stopLeftovers(context.WithoutCancel(ctx))
	return errors.Join(errors.New("PostgreSQL did not stop in time and was terminated; the next start recovers its data"), err)
}
