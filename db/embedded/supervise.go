package embedded

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

const (
	maxRestarts  = 6                      // in a row, after which the server has failed
	restartDelay = 100 * time.Millisecond // before the first restart; it doubles with each one
	stableTime   = time.Minute            // a server that ran for this long is restarted as if for the first time
)

// postmaster is one run of the server.
type postmaster struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has exited; its child processes may still run
}

func (p *postmaster) waitExit(ctx context.Context) bool {
	select {
	case <-p.exited:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) exitError(p *postmaster) error {
	return fmt.Errorf("PostgreSQL exited unexpectedly (%s); its log ends with:\n%s", p.cmd.ProcessState, s.dataDir.logTail())
}

// supervise restarts the server when it exits, until Stop is called or restarts do not
// help.
func (s *Server) supervise() {
	defer close(s.done)
	var failure error // of the last restart
	for restarts := 0; ; restarts++ {
		if failure == nil {
			running, began := s.current.Load(), time.Now()
			if !running.waitExit(s.stopping) {
				return
			}
			if time.Since(began) >= stableTime {
				restarts = 0
			}
			failure = s.exitError(running)
		}
		if restarts == maxRestarts {
			s.err = fmt.Errorf("the embedded PostgreSQL failed %d times in a row and is not restarted again: %w", restarts+1, failure)
			s.logger.Error("embedded database is not restarted again", "restarts", restarts, "error", failure)
			return
		}
		delay := restartDelay << restarts
		s.logger.Error("embedded database exited unexpectedly", "restartIn", delay, "error", failure)
		select {
		case <-s.stopping.Done():
			return
		case <-time.After(delay):
		}
		began := time.Now()
		if failure = s.restart(); failure == nil {
			s.logger.Info("embedded database restarted", "pid", s.Pid(), "duration", time.Since(began))
		} else if s.stopping.Err() != nil {
			return
		}
	}
}

// restart starts the server again. First it ends the processes of the last postmaster:
// PostgreSQL does not start while they hold shared memory.
func (s *Server) restart() error {
	ctx, cancel := context.WithTimeout(s.stopping, startTimeout)
	defer cancel()
	if err := s.dataDir.stopLeftovers(ctx); err != nil {
		return err
	}
	if err := s.dataDir.clearSocketDir(); err != nil {
		return err
	}
	return s.run(ctx)
}
