// Package cdp implements the Chrome DevTools Protocol over a pair of pipes, as
// Chromium does with --remote-debugging-pipe: NUL-terminated JSON messages.
//
// It sends calls, matches answers and delivers events. Methods and their
// parameters are up to the caller.
//
// Its folders handle the messages of clients: frames (wsframe), calls that the worker
// answers or changes (intercept), resumable connections (resume) and handovers to
// persons (handover). Every other group may import them; they import no other group. A
// connection owns two goroutines, one for each direction; locks order messages, and no
// lock is held while a socket blocks, except to keep the order of writes.
package cdp
