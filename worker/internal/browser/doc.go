// Package browser starts real Chromium processes and ends them without leaking
// resources.
//
// A Launcher owns everything its browsers need of the machine: one operating-system
// thread that starts every process, a pool of user ids, a directory. Launch returns a
// Browser once it answers on its control pipe. Whether the browser exits, crashes or is
// killed, or the worker dies: its process tree, its display, its directory and its user
// id are released.
//
// With Options.Isolation each browser is the first process of its own sandbox
// (package sandbox). One sandbox is always prepared in advance for the next launch.
//
// Its folders contain what a launch is made of: processes (process) with namespaces and
// limits (sandbox), X servers (display), egress (proxy), builds (builds, install,
// pagecache), extensions (extension) and identity presets (bundle). Packages of session,
// cloud, api and app import them; they know nothing of HTTP handlers, of the API's types
// or of the cloud. Each browser owns the goroutines that watch it, and its end waits for
// them; the launcher owns the thread of all starts.
package browser
