package rest

import (
	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/settings"
)

// networkOf converts what a worker has reported.
func networkOf(n cloudapi.SessionNetwork) (activity.Network, error) {
	hosts, err := settings.Convert[activity.Hosts](n.Items)
	return activity.Network{
		Connections: n.Totals.Connections, BytesSent: n.Totals.BytesSent, BytesReceived: n.Totals.BytesReceived, Denied: n.Totals.Denied, Hosts: hosts,
	}, err
}

// networkTotals returns the totals of a session; nil until they are reported.
func networkTotals(s activity.Session) *sharedapi.NetworkTotals {
	if s.BytesSent == nil {
		return nil
	}
	return &sharedapi.NetworkTotals{
		Connections: valueOr(s.Connections, 0), BytesSent: *s.BytesSent, BytesReceived: valueOr(s.BytesReceived, 0), Denied: valueOr(s.Denied, 0),
	}
}

// networkHosts returns the hosts of a session; nil until they are reported.
func networkHosts(d activity.Detail) (*cloudapi.NetworkHosts, error) {
	if d.Hosts == nil {
		return nil, nil //nolint:nilnil // absent
	}
	hosts, err := settings.Convert[cloudapi.NetworkHosts](d.Hosts)
	return &hosts, err
}
