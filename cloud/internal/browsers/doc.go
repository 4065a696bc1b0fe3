// Package browsers groups what an organization keeps about its browsers: profiles
// (profile), their stored data (profiledata), browser builds (catalog) and the session
// feed (activity). Packages of api and app import it; they do not import each other.
// It has no locks and starts no goroutine.
package browsers
