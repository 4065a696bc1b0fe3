// Package sandbox seals each launch in a room of its own: PID, network, mount,
// IPC and UTS namespaces, a file system in which nothing of the host is but what
// a browser needs to run, a user without rights, and a control group that bounds
// what it takes and ends all of it at once.
//
// A room's network has a loopback and nothing else that leads anywhere. The
// worker reaches into it by sockets that were made in there and handed out: one
// listens where the browser looks for its proxy, the others connect to its
// debugging port.
//
// The worker starts its own program once more, in new namespaces, with Command
// as its argument; Main is what that process does. It makes what all rooms have
// in common, waits for its order on a socket, furnishes the room for the launch,
// gives up every right, answers, and on the worker's word becomes the browser,
// which thus is the first process of its PID namespace: nothing in there outlives
// it. It ends with the worker, and a guard, which waits for the worker's end, has
// the kernel end all launches together.
//
// What this host denies is found out by Open, with a canary, piece by piece;
// what is denied is left out and reported with its reason.
package sandbox
