// Package sandbox isolates each launch: PID, network, mount, IPC and UTS
// namespaces, a root file system with only the host files that a browser needs,
// a user without privileges, and a control group that limits resources and kills
// all processes at once.
//
// A sandbox's network has a loopback and no route to other networks. The worker
// reaches it through sockets that were created inside and passed out: one listens
// where the browser expects its proxy, the others connect to its debugging port.
//
// The worker starts its own program in new namespaces with Command as the
// argument, and that process calls Main. It sets up what all sandboxes have in
// common, waits for a setup request on a socket, sets up the sandbox for the
// launch, drops all privileges and responds. On the worker's exec command it
// execs the browser, which is therefore the first process of its PID namespace:
// when it ends, the kernel kills the others. It ends with the worker, and a guard
// process makes the kernel kill all launches when the worker ends.
//
// Open finds out what this host denies by starting a canary. Pieces that are
// denied are switched off and reported with the reason.
package sandbox
