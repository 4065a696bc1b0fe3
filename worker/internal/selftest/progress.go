package selftest

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// showProgress prints the progress until the returned function is called: in one
// changing line on a terminal, otherwise in a line every ten seconds.
func (r *run) showProgress(began time.Time) (end func()) {
	every, format := 10*time.Second, "%s\n"
	terminal := isTerminal(r.Progress)
	if terminal {
		every, format = 200*time.Millisecond, "\r%s\x1b[K"
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = fmt.Fprintf(r.Progress, format, r.progressLine(began))
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-ended
		if terminal {
			_, _ = fmt.Fprintf(r.Progress, format+"\n", r.progressLine(began))
		}
	})
}

// progressLine returns a line such as "selftest: 20 s of 60 s, 41 actions, 0
// failed".
func (r *run) progressLine(began time.Time) string {
	gone, failed := r.log.counts()
	spent := fmt.Sprintf("%d s of %.0f s", int(time.Since(began).Seconds()), r.Duration.Seconds())
	if r.Rounds > 0 {
		spent = fmt.Sprintf("%d s", int(time.Since(began).Seconds()))
	}
	return fmt.Sprintf("selftest: %s, %d actions, %d failed", spent, gone, failed)
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
