// Package media groups pictures and input: the RFB protocol of the live view (rfb),
// recordings (recording), keys of a keyboard (keys), and clicks and fields in pages
// (interaction), also as scripts (script). Packages of api and app import it. A recording and a viewer own their
// goroutines until their session or connection ends; no lock is held while a picture is
// written.
package media
