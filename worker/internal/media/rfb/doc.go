// Package rfb implements the Remote Framebuffer protocol, version 3.8 (RFC 6143),
// which VNC viewers use.
//
// A viewer is connected to an Upstream: Connect opens the VNC server of a headful
// browser's display, and Screencast runs an RFB server for the pages of a headless
// browser. Serve is the server for an authorized viewer. Each message of the viewer
// passes a filter: with Watch access, the filter drops all messages that could
// change anything.
//
// The package works on streams and does not depend on HTTP routes or tickets.
package rfb
