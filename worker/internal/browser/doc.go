// Package browser starts real Chromium processes, and ends them without a
// trace.
//
// A Finder lists the installed builds. A Launcher owns everything its browsers
// need of the machine: one operating-system thread that starts every process,
// a pool of user ids, a directory. Launch returns a Browser once it answers on
// its control pipe. Whatever happens afterwards (the browser exits or crashes,
// Kill, the death of the worker) its whole process tree, its display, its
// directory and its user id are given back.
//
// With Options.Isolation each browser is the first process of a room of its own
// (package isolation). One room always waits, so that a launch waits for none.
//
// The package knows nothing of HTTP, of the API's types or of the cloud.
package browser
