// Package testing groups what only tests use: the installed test browsers (browsertest), and a
// cloud in memory that checks requests against the document (cloudtest).
package testing
