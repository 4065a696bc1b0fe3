// Package browser starts real Chromium processes and ends them without leaking
// resources.
//
// A Finder lists the installed builds. A Launcher owns everything its browsers
// need of the machine: one operating-system thread that starts every process,
// a pool of user ids, a directory. Launch returns a Browser once it answers on
// its control pipe. Whether the browser exits, crashes or is killed, or the worker
// dies: its process tree, its display, its directory and its user id are released.
//
// With Options.Isolation each browser is the first process of its own sandbox
// (package sandbox). One sandbox is always prepared in advance for the next launch.
//
// The package knows nothing of HTTP, of the API's types or of the cloud.
package browser
