// Package rfb speaks the Remote Framebuffer protocol, version 3.8 (RFC 6143),
// which VNC viewers use.
//
// What a viewer looks at is an Upstream: Connect opens the VNC server of a
// headful browser's display, Screencast makes one of a headless browser's
// pages. Serve plays the server towards a viewer that was let in already and
// connects the two. Whatever the viewer sends passes a filter, message by
// message: with Watch access nothing that could change anything gets through.
//
// The package works on streams and knows neither HTTP routes nor tickets.
package rfb
