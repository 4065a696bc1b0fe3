package proxy

import "context"

// Bounds of one Forwarder: a browser opens hundreds of connections for each of
// its contexts, of which its client may have any number.
const (
	maxClients = 1024                   // the kernel's queue holds back who comes after
	maxIdle    = 128                    // of each way out, to be used again
	maxOutward = maxClients + 2*maxIdle // for two ways; dials that were given up are among them
)

// Descriptors is how many a Forwarder takes at most: a tunnel's two sockets, and
// a pipe for each of its directions.
const Descriptors = 6*maxClients + 2*maxIdle

// places bound how many connections there are at once.
type places chan struct{}

// take waits for one.
func (p places) take(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p places) free() { <-p }
