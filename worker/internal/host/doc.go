// Package host groups what the worker knows about its machine: resource usage and
// admission (fleet), and the user of a local connection (peeruser). It imports no other
// group. It has no locks and starts no goroutine: its callers measure.
package host
