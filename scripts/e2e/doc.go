// Package e2e tests the built programs: it starts them as processes and uses them
// over HTTP and with puppeteer, playwright and Selenium.
package e2e
