// Package api groups the HTTP interface of the cloud: handlers (rest), credentials
// and roles of callers (access), replay of idempotent requests (replay) and the image
// registry (registry). Only app imports its packages. They start no goroutine; the
// only lock is the limit of concurrent downloads in registry.
package api
