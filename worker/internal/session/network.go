package session

// Network is what a browser has transferred and what it was denied.
type Network struct {
	NetworkTotals
	Hosts []NetworkHost `json:"hosts"` // the most bytes first
	Proxy *string       `json:"proxy"` // host:port of the launch's proxy; nil: direct
}

// NetworkTotals are sums. A connection is a tunnel or a plain request.
type NetworkTotals struct {
	BytesReceived int64 `json:"bytesReceived"`
	BytesSent     int64 `json:"bytesSent"`
	Connections   int64 `json:"connections"`
	Denied        int64 `json:"denied"` // requests
}

// NetworkHost is the part of one host, or of all that are not listed. Its JSON is that of
// the API.
type NetworkHost struct {
	Host          string          `json:"host"`
	BytesReceived int64           `json:"bytesReceived"`
	BytesSent     int64           `json:"bytesSent"`
	Connections   int64           `json:"connections"`
	Denied        []NetworkDenial `json:"denied"`
	Proxy         *string         `json:"proxy"` // of the latest connection; nil: direct
}

// NetworkDenial counts the requests that a rule denied.
type NetworkDenial struct {
	Level string `json:"level"` // worker, organization, profile, launch or other
	Rule  string `json:"rule"`
	Count int64  `json:"count"`
}
