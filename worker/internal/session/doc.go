// Package session stores the running sessions of this machine and those that ended
// in the last hour (specification 2.4, 3.1).
//
// Its folders contain the life of a session: launch (validate, admit, authorize, start,
// watch, end), warm (the pool of warm browsers) and activity (use of its connections). Packages of api,
// auth, cloud and app import them. A lock protects the store in memory; launch and warm
// own the goroutines of running and prepared browsers, and wait for them when they close.
package session
