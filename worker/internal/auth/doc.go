// Package auth groups the credentials of the worker: view tickets (ticket), and the
// access to the routes of one browser by control token, ticket or cookie (access).
// Packages of api and app import it. It starts no goroutine; ticket locks its table
// in memory.
package auth
