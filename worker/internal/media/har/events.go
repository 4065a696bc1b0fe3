package har

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strings"
)

// methods are the events that are collected.
func methods() []string {
	return []string{
		"Target.attachedToTarget", "Target.detachedFromTarget",
		"Network.requestWillBeSent", "Network.requestWillBeSentExtraInfo", "Network.requestServedFromCache",
		"Network.responseReceived", "Network.responseReceivedExtraInfo", "Network.dataReceived",
		"Network.loadingFinished", "Network.loadingFailed",
		"Network.webSocketCreated", "Network.webSocketWillSendHandshakeRequest", "Network.webSocketHandshakeResponseReceived",
		"Network.webSocketFrameSent", "Network.webSocketFrameReceived", "Network.webSocketClosed",
	}
}

// networkEvent has the parameters of all Network events. Times are seconds.
type networkEvent struct {
	RequestID string
	LoaderID  string
	FrameID   string
	Type      string
	Timestamp float64
	WallTime  float64
	URL       string // of a WebSocket

	Request              requestData
	RedirectResponse     *responseData
	RedirectHasExtraInfo bool

	Response     *responseData // of a WebSocket frame: only the fields of frames
	HasExtraInfo bool

	Headers    map[string]string // of an ExtraInfo
	StatusCode int

	DataLength        int64
	EncodedDataLength float64
	ErrorText         string
	BlockedReason     string
	Canceled          bool
}

type requestData struct {
	URL             string
	Method          string
	Headers         map[string]string
	PostData        string
	HasPostData     bool
	PostDataEntries []struct{ Bytes []byte }
}

type responseData struct {
	URL               string
	Status            int
	StatusText        string
	Headers           map[string]string
	MimeType          string
	RemoteIPAddress   string
	ConnectionID      float64
	FromDiskCache     bool
	FromServiceWorker bool
	EncodedDataLength float64
	Protocol          string
	Timing            *timing

	Opcode      float64
	PayloadData string
}

// timing is Network.ResourceTiming: milliseconds since RequestTime, which is in seconds.
type timing struct {
	RequestTime              float64
	DNSStart, DNSEnd         float64
	ConnectStart, ConnectEnd float64
	SSLStart, SSLEnd         float64
	SendStart, SendEnd       float64
	ReceiveHeadersEnd        float64
	ProxyStart, ProxyEnd     float64
}

// extra is what an ExtraInfo event knows: the headers on the wire.
type extra struct {
	headers map[string]string
	status  int
}

// isRecorded reports whether requests for a URL are recorded: as in DevTools, those of the network.
func isRecorded(address string) bool {
	scheme, _, ok := strings.Cut(address, ":")
	return ok && slices.Contains([]string{"http", "https", "ws", "wss"}, scheme)
}

// isSensitive reports whether a header is never recorded.
func isSensitive(header string) bool {
	switch strings.ToLower(header) {
	case "authorization", "proxy-authorization", "cookie", "cookie2", "set-cookie", "set-cookie2", "x-api-key", "api-key", "x-auth-token",
		"x-access-token", "x-csrf-token", "x-xsrf-token", "x-amz-security-token", "x-goog-api-key", "x-svc-token":
		return true
	}
	return false
}

// fields returns headers in the order of their names, without the sensitive ones. The
// protocol joins equal headers with line feeds.
func fields(headers map[string]string) []Field {
	list := []Field{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if isSensitive(name) {
			continue
		}
		for value := range strings.SplitSeq(headers[name], "\n") {
			list = append(list, Field{Name: name, Value: value})
		}
	}
	return list
}

func header(headers map[string]string, name string) string {
	for key, value := range headers {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// version returns a protocol as HAR names it.
func version(protocol string) string {
	switch protocol {
	case "http/1.0", "http/1.1":
		return strings.ToUpper(protocol)
	case "h2":
		return "HTTP/2.0"
	case "h3":
		return "HTTP/3.0"
	}
	return cmp.Or(protocol, "unknown")
}

// serverAddress returns the address of a server; "" if the browser knows only that of the
// worker's forwarder, through which it reaches the network.
func serverAddress(host, remote string) string {
	remote = strings.Trim(remote, "[]")
	ip, named := net.ParseIP(remote), net.ParseIP(strings.Trim(host, "[]"))
	if ip == nil || ip.IsLoopback() && host != "localhost" && (named == nil || !named.IsLoopback()) {
		return ""
	}
	return remote
}
