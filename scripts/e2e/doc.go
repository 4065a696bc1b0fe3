// Package e2e tests the two programs as their users meet them: the real
// binaries, started as processes and driven over HTTP and by puppeteer,
// playwright and Selenium.
package e2e
