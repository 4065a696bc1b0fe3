// Package testing groups what only tests and the self-test use: the installed test
// browsers (browsertest), and a cloud in memory (fakecloud) with its checks against the
// document (cloudtest). Product code other than selftest does not import it.
package testing
